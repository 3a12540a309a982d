"""ConvS2S as most would write it in plain torch: a peer for the speed of training, and an oracle.

`nn.Conv1d` with torch's `weight_norm`, `F.glu` and `torch.bmm`. `baseline_speed.py` measures it.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from transduce.models.conv_s2s.settings import ConvS2SConfig, parse_layers
from transduce.text.special_ids import PAD_ID

HALF = math.sqrt(0.5)


def normalised_linear(d_in: int, d_out: int) -> nn.Module:
    """Build a linear layer with weight normalisation."""
    linear = nn.Linear(d_in, d_out)
    nn.init.normal_(linear.weight, std=math.sqrt(1 / d_in))
    nn.init.zeros_(linear.bias)
    normalised: nn.Module = weight_norm(linear)
    return normalised


def normalised_convolution(d_in: int, d_out: int, kernel: int, padding: int) -> nn.Module:
    """Build a convolution with weight normalisation."""
    convolution = nn.Conv1d(d_in, d_out, kernel, padding=padding)
    nn.init.normal_(convolution.weight, std=math.sqrt(4 / (kernel * d_in)))
    assert convolution.bias is not None
    nn.init.zeros_(convolution.bias)
    normalised: nn.Module = weight_norm(convolution)
    return normalised


class PlainConvS2S(nn.Module):
    """Gehring et al. 2017, with the tied embedding of our own."""

    def __init__(self, shape: ConvS2SConfig) -> None:
        super().__init__()
        d = shape.d_model
        encoder, decoder = parse_layers(shape.encoder_layers), parse_layers(shape.decoder_layers)
        self.p_drop = shape.p_drop
        self.embedding = nn.Embedding(shape.vocab_size, d)
        self.src_positions = nn.Embedding(shape.max_positions, d)
        self.tgt_positions = nn.Embedding(shape.max_positions, d)
        for table in (self.embedding, self.src_positions, self.tgt_positions):
            nn.init.normal_(table.weight, std=0.1)
        self.encoder_in = normalised_linear(d, encoder[0][0])
        self.encoder_convolutions = nn.ModuleList()
        self.encoder_residuals = nn.ModuleList()
        d_in = encoder[0][0]
        for d_out, kernel in encoder:
            self.encoder_convolutions.append(
                normalised_convolution(d_in, 2 * d_out, kernel, kernel // 2)
            )
            self.encoder_residuals.append(
                normalised_linear(d_in, d_out) if d_in != d_out else nn.Identity()
            )
            d_in = d_out
        self.encoder_out = normalised_linear(d_in, d)
        self.decoder_in = normalised_linear(d, decoder[0][0])
        self.decoder_convolutions = nn.ModuleList()
        self.decoder_residuals = nn.ModuleList()
        self.queries = nn.ModuleList()
        self.contexts = nn.ModuleList()
        d_in = decoder[0][0]
        for d_out, kernel in decoder:
            self.decoder_convolutions.append(
                normalised_convolution(d_in, 2 * d_out, kernel, kernel - 1)
            )
            self.decoder_residuals.append(
                normalised_linear(d_in, d_out) if d_in != d_out else nn.Identity()
            )
            self.queries.append(normalised_linear(d_out, d))
            self.contexts.append(normalised_linear(d, d_out))
            d_in = d_out
        self.decoder_out = normalised_linear(d_in, d)

    def forward(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        """Return logits."""
        padding = src == PAD_ID
        z, values = self.encode(src, padding)
        logits: Tensor = F.linear(self.decode(tgt_in, z, values, padding), self.embedding.weight)
        return logits

    def encode(self, src: Tensor, padding: Tensor) -> tuple[Tensor, Tensor]:
        """Return the encoder's output, and with it the embeddings, scaled."""
        e = self.embed(src, self.src_positions)
        x = self.encoder_in(e)
        for convolution, residual in zip(
            self.encoder_convolutions, self.encoder_residuals, strict=True
        ):
            before = residual(x)
            x = x.masked_fill(padding[:, :, None], 0)
            x = F.dropout(x, self.p_drop, self.training)
            x = F.glu(convolution(x.transpose(1, 2)), dim=1).transpose(1, 2)
            x = (x + before) * HALF
        z = self.encoder_out(x)
        if z.requires_grad:
            z.register_hook(lambda gradient: gradient / (2 * len(self.queries)))
        return z, (z + e) * HALF

    def decode(self, tgt_in: Tensor, z: Tensor, values: Tensor, padding: Tensor) -> Tensor:
        """Return the last states."""
        g = self.embed(tgt_in, self.tgt_positions)
        x = self.decoder_in(g)
        scale = (~padding).sum(dim=1).to(g.dtype).sqrt()[:, None, None]
        layers = zip(
            self.decoder_convolutions,
            self.decoder_residuals,
            self.queries,
            self.contexts,
            strict=True,
        )
        for convolution, residual, query, context in layers:
            before = residual(x)
            x = F.dropout(x, self.p_drop, self.training)
            convolved = convolution(x.transpose(1, 2))[:, :, : tgt_in.size(1)]
            x = F.glu(convolved, dim=1).transpose(1, 2)
            scores = torch.bmm((query(x) + g) * HALF, z.transpose(1, 2))
            weights = scores.masked_fill(padding[:, None], -math.inf).softmax(dim=-1)
            attended = torch.bmm(weights, values) * scale
            x = (context(attended) + x) * HALF
            x = (x + before) * HALF
        return F.dropout(self.decoder_out(x), self.p_drop, self.training)

    def embed(self, ids: Tensor, positions: nn.Embedding) -> Tensor:
        """Add the embeddings of tokens and positions."""
        at = torch.arange(ids.size(1), device=ids.device)
        return F.dropout(self.embedding(ids) + positions(at), self.p_drop, self.training)
