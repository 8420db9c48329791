"""How queries, keys and values become outputs."""

from transformer.attention import scaling
from transformer.attention.linear import Linear
from transformer.attention.multi_head import CrossAttention, MultiHeadAttention
from transformer.attention.scaled_dot_product import Softmax, scaled_dot_product_attention
from transformer.attention.window import Window

__all__ = [
    "CrossAttention", "Linear", "MultiHeadAttention", "Softmax", "Window", "scaled_dot_product_attention", "scaling",
]
