"""A real Ray cluster of two worker nodes on this machine, one of which dies in mid-run. Prints how the runs ended.

`python -m tests.experiments.runner_ray_cluster RESULTS`
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from experiments.runner import engine, plan
from experiments.runner.events import Event
from experiments.runner.ray_engine import RayEngine
from tests.experiments.runner_kit import TARGET, jobs, make_runs


def main(results: Path) -> int:
    """Starts the cluster, launches 12 runs on it, kills a node while both train, once three runs are done."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=1, object_store_memory=100 * 2**20) for _ in range(2)]
    cluster.wait_for_nodes()
    runs, active, done = make_runs(4, 3), set(), []

    def watch(event: Event) -> None:
        print(event.kind, event.run_id, event.error, flush=True)
        if event.kind == "progress":
            active.add(event.run_id)
        if event.kind == "done":
            active.discard(event.run_id)
            done.append(event.run_id)
        if len(done) >= 3 and len(active) == 2 and len(nodes) == 2:
            cluster.remove_node(nodes.pop(), allow_graceful=False)

    ray = RayEngine(target=TARGET, address=cluster.address)
    print("slots", ray.slots, flush=True)
    chosen = engine.Options(jobs(results, steps=30, step_seconds=0.1), target=TARGET)
    outcome = engine.run(plan.plan("x", runs, results), ray, chosen, watch)
    cluster.shutdown()
    print("outcome", outcome.exit_code, len(outcome.done), len(set(done)), len(done), outcome.problem, flush=True)
    return outcome.exit_code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
