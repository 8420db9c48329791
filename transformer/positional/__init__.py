"""Where position enters: added to embeddings, turned into queries and keys, or added to scores."""

from transformer.positional.alibi import ALiBi
from transformer.positional.learned import Learned
from transformer.positional.none import NoPosition
from transformer.positional.relative import Relative
from transformer.positional.rope import RoPE
from transformer.positional.sinusoidal import Sinusoidal

__all__ = ["ALiBi", "Learned", "NoPosition", "Relative", "RoPE", "Sinusoidal"]
