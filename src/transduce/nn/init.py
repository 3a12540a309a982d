"""How a new model's weights are drawn: the one place, with the reasons.

The paper says nothing; the original implementation drew every matrix as Glorot and Bengio propose
and the embedding with standard deviation d_model^-0.5. We do the same, with one refinement for
heads whose joint width is not d_model.
"""

import math

from torch import nn

from transduce.nn.attention import MultiHeadAttention
from transduce.nn.embedding import Embedding
from transduce.nn.feed_forward import FeedForward
from transduce.nn.positions import LearnedPositions


def initialise(model: nn.Module) -> None:
    """Draw every weight anew from torch's current random state."""
    for module in model.modules():
        match module:
            case Embedding():
                # On the way in, times sqrt(d_model), entries have variance 1 like the layers'
                # outputs; on the way out, a normalised state gives logits of variance 1.
                nn.init.normal_(module.weight, std=module.weight.size(1) ** -0.5)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            case LearnedPositions():
                # Small beside the embeddings: a position starts as a hint and grows as needed.
                nn.init.normal_(module.table, std=module.table.size(1) ** -0.5)
            case MultiHeadAttention():
                # Variance 1 for each component of q and k, as the scale 1 / sqrt(d_k) supposes
                # (§3.2.1). Where h·d_k = d_model this is Glorot's; where it is less (Table 3
                # row B), Glorot's would start with a sharper softmax.
                for projection in (module.w_q, module.w_k, module.w_v):
                    _keep_variance(projection)
                _glorot(module.w_o)
            case FeedForward():
                _glorot(module.w_1)
                _glorot(module.w_2)
            case nn.LayerNorm():
                module.reset_parameters()  # gain 1, bias 0: starts as the plain norm


def _keep_variance(projection: nn.Linear) -> None:
    """Give outputs the variance of the inputs: weights uniform with variance 1 / fan_in."""
    bound = math.sqrt(3 / projection.in_features)
    nn.init.uniform_(projection.weight, -bound, bound)
    _zero_bias(projection)


def _glorot(projection: nn.Linear) -> None:
    """Balance both directions: weights uniform with variance 2 / (fan_in + fan_out)."""
    nn.init.xavier_uniform_(projection.weight)
    _zero_bias(projection)


def _zero_bias(projection: nn.Linear) -> None:
    if projection.bias is not None:
        nn.init.zeros_(projection.bias)
