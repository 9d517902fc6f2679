"""Relation Network: the visual question answering model of the CLEVR-XAI chapter.

Santoro et al. 2017, "A simple neural network module for relational reasoning", in the size of Arras, Osman
and Samek 2022, "CLEVR-XAI": convolutions without padding, a normalization after each ReLU, 7 x 7 objects at
128 x 128. Letters: ``K`` objects (cells of the last feature map), ``L`` words, ``N`` questions.
"""

import copy
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

CHANNELS, HIDDEN, QUESTION, WORD = 24, 256, 128, 32
OBJECT = CHANNELS + 2  # features and the two coordinates
N_ANSWERS, N_WORDS = 28, 82
SIZES = (64, 96, 128)

BatchNormRule = Literal["merged", "last-passed", "all-passed"]
_MERGED: dict[str, tuple[str, ...]] = {
    "merged": ("bn1", "bn2", "bn3", "bn4"),
    "last-passed": ("bn1", "bn2", "bn3"),
    "all-passed": (),
}


class Encoder(nn.Module):
    """Four blocks of convolution, ReLU and batch normalization, each halving the sides; no padding.

    Every ReLU is a module of its own and not in place, so that attribution methods can hook each.
    """

    def __init__(self) -> None:
        super().__init__()
        for number in range(1, 5):
            channels_in = 3 if number == 1 else CHANNELS
            self.add_module(f"conv{number}", nn.Conv2d(channels_in, CHANNELS, 3, stride=2))
            self.add_module(f"relu{number}", nn.ReLU())
            self.add_module(f"bn{number}", nn.BatchNorm2d(CHANNELS))

    def forward(self, images: Tensor) -> Tensor:
        """Features ``(N, 24, s, s)`` of images ``(N, 3, H, W)``; 128 pixels give ``s = 7``."""
        x = images
        for block in self.children():
            x = block(x)
        return x


class RelationNetwork(nn.Module):
    """Logits of answers to questions about images, from all ordered pairs of cells of a feature map.

    484,548 parameters with the default counts. The first layer of ``g`` acts on a concatenation, so it is a
    sum of three maps, of object ``i``, of object ``j`` and of the question. In factored form each is computed
    once instead of once per pair; the logits are the same up to rounding.

    Args:
        size: Side of the square images in pixels: 128, 96 or 64.
        n_answers: Number of logits.
        n_words: Rows of the word table; row 0 is the padding, a zero vector that is never trained.
        factored: Whether the first layer of ``g`` is evaluated in factored form. The module ``g1`` is then
            not called, only its weights are used, so hooks on it see nothing.

    Raises:
        ValueError: The size is none of the three.
    """

    def __init__(
        self, size: int = 128, n_answers: int = N_ANSWERS, n_words: int = N_WORDS, factored: bool = True
    ) -> None:
        super().__init__()
        if size not in SIZES:
            raise ValueError(f"the network takes images of {', '.join(map(str, SIZES))} pixels, got {size}")
        self.size = size
        self.factored = factored
        self.embedding = nn.Embedding(n_words, WORD, padding_idx=0)
        self.lstm = nn.LSTM(WORD, QUESTION, batch_first=True)
        self.cnn = Encoder()
        self.g1 = nn.Linear(2 * OBJECT + QUESTION, HIDDEN)
        self.relu_g1 = nn.ReLU()
        self.g2 = nn.Linear(HIDDEN, HIDDEN)
        self.relu_g2 = nn.ReLU()
        self.g3 = nn.Linear(HIDDEN, HIDDEN)
        self.relu_g3 = nn.ReLU()
        self.g4 = nn.Linear(HIDDEN, HIDDEN)
        self.relu_g4 = nn.ReLU()
        self.f1 = nn.Linear(HIDDEN, HIDDEN)
        self.relu_f1 = nn.ReLU()
        self.f2 = nn.Linear(HIDDEN, HIDDEN)
        self.relu_f2 = nn.ReLU()
        self.dropout = nn.Dropout(0.5)
        self.f3 = nn.Linear(HIDDEN, n_answers)

    def forward(self, images: Tensor, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Logits ``(N, A)``.

        Args:
            images: ``(N, 3, size, size)`` in [0, 1].
            tokens: ``(N, L)`` int64 word numbers, padded at the end.
            lengths: ``(N,)`` int64 number of words of each question, at least 1.

        Raises:
            ValueError: The shapes do not fit each other or the network.
        """
        self._check(images, tokens, lengths)
        return self.answer_objects(self.objects(self.cnn(images)), self.encode_question(tokens, lengths))

    @property
    def n_objects(self) -> int:
        """``K``: cells of the feature map, 49, 25 or 9."""
        return ((self.size - 31) // 16 + 1) ** 2

    def encode_question(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Question codes ``(N, 128)``: the state of the LSTM after each question's last word."""
        # What is read after the last word cannot reach an earlier state, so padding need not be packed away.
        states, _ = self.lstm(self.embedding(tokens))  # (N, L, 128)
        last = (lengths.to(tokens.device) - 1)[:, None, None].expand(-1, 1, QUESTION)
        code: Tensor = states.gather(1, last)[:, 0]
        return code

    def objects(self, features: Tensor) -> Tensor:
        """Objects ``(N, K, 26)`` of features ``(N, 24, s, s)``, row by row: features, column, row.

        Both coordinates run from ``-(s - 1) / 4`` to ``(s - 1) / 4`` in steps of one half.
        """
        side = features.shape[-1]
        steps = (torch.arange(side, dtype=features.dtype, device=features.device) - (side - 1) / 2) / 2
        rows, columns = torch.meshgrid(steps, steps, indexing="ij")
        coordinates = torch.stack([columns, rows]).flatten(1).T  # (K, 2)
        return torch.cat([features.flatten(2).mT, coordinates.expand(len(features), -1, -1)], dim=2)

    def pairs(self, objects: Tensor, question: Tensor) -> Tensor:
        """Inputs ``(N, K * K, 180)`` of ``g``: objects ``i`` and ``j``, question, at place ``K * i + j``."""
        n, k, width = objects.shape
        first = objects[:, :, None].expand(n, k, k, width)
        second = objects[:, None].expand(n, k, k, width)
        code = question[:, None, None].expand(n, k, k, question.shape[1])
        return torch.cat([first, second, code], dim=3).flatten(1, 2)

    def halves(self, objects: Tensor, question: Tensor) -> tuple[Tensor, Tensor]:
        """The two summands ``(N, K, 256)`` of the first layer of ``g``, before its ReLU, in factored form.

        The first is ``W_i o_i + (W_q q + b)`` of each object as first of a pair, the other is ``W_j o_j`` of
        each as second.
        """
        weight = self.g1.weight
        code = F.linear(question, weight[:, 2 * OBJECT :], self.g1.bias)[:, None]  # (N, 1, 256)
        return F.linear(objects, weight[:, :OBJECT]) + code, F.linear(objects, weight[:, OBJECT : 2 * OBJECT])

    def later_layers(self, x: Tensor) -> Tensor:
        """Outputs ``(..., 256)`` of ``g`` from the values ``(..., 256)`` before its first ReLU."""
        x = self.relu_g2(self.g2(self.relu_g1(x)))
        result: Tensor = self.relu_g4(self.g4(self.relu_g3(self.g3(x))))
        return result

    def relations(self, objects: Tensor, question: Tensor) -> Tensor:
        """Outputs ``(N, K * K, 256)`` of ``g`` for all pairs, in the order of ``pairs``."""
        if self.factored:
            first, second = self.halves(objects, question)
            return self.later_layers((first[:, :, None] + second[:, None]).flatten(1, 2))
        return self.later_layers(self.g1(self.pairs(objects, question)))

    def answer(self, summed: Tensor) -> Tensor:
        """Logits ``(N, A)`` of the sum over all pairs ``(N, 256)``."""
        x = self.relu_f2(self.f2(self.relu_f1(self.f1(summed))))
        logits: Tensor = self.f3(self.dropout(x))
        return logits

    def answer_objects(self, objects: Tensor, question: Tensor) -> Tensor:
        """Logits ``(N, A)`` of objects ``(N, K, 26)`` and question codes ``(N, 128)``."""
        return self.answer(self.relations(objects, question).sum(dim=1))

    def canonical(self, batch_norm: BatchNormRule = "merged") -> "RelationNetwork":
        """An equal network of its own in plain pair form, for rules that go layer by layer.

        A normalization in evaluation mode is ``s x + t`` per channel. It follows a ReLU, so it goes into the
        layer after it: weights times ``s``, and ``t`` through them into the bias. That is exact because no
        convolution pads. The last one goes into both feature parts of ``g1``. Merged normalizations are
        replaced by ``nn.Identity``.

        Args:
            batch_norm: Which are merged: all (``merged``), all but the last (``last-passed``), none
                (``all-passed``).

        Raises:
            ValueError: The rule is unknown, or the network is in training mode, which has no equal form.
        """
        if batch_norm not in _MERGED:
            raise ValueError(f"batch_norm must be one of {', '.join(_MERGED)}; got {batch_norm!r}")
        if self.training:
            raise ValueError("only a network in evaluation mode has a canonical form; call eval() first")
        network = copy.deepcopy(self)
        network.factored = False
        for name in _MERGED[batch_norm]:
            _merge(network, name)
        return network

    def _check(self, images: Tensor, tokens: Tensor, lengths: Tensor) -> None:
        if images.shape[1:] != (3, self.size, self.size):
            raise ValueError(
                f"images must be (N, 3, {self.size}, {self.size}), got {tuple(images.shape)}; resize them"
            )
        if tokens.ndim != 2 or not len(images) == len(tokens) == len(lengths):
            raise ValueError(
                "need one question per image: tokens (N, L) and lengths (N,); got images "
                f"{tuple(images.shape)}, tokens {tuple(tokens.shape)}, lengths {tuple(lengths.shape)}"
            )


@torch.no_grad()
def _merge(network: RelationNetwork, name: str) -> None:
    """Move the normalization called ``name`` into the layer after it, in place."""
    norm = getattr(network.cnn, name)
    scale: Tensor = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    shift: Tensor = norm.bias - norm.running_mean * scale
    if name == "bn4":
        layer: nn.Linear | nn.Conv2d = network.g1
        for start in (0, OBJECT):
            columns = layer.weight[:, start : start + CHANNELS]
            layer.get_parameter("bias").add_(columns @ shift)
            columns.mul_(scale)
    else:
        layer = getattr(network.cnn, f"conv{int(name[2:]) + 1}")
        layer.get_parameter("bias").add_(layer.weight.sum(dim=(2, 3)) @ shift)
        layer.weight.mul_(scale[:, None, None])
    setattr(network.cnn, name, nn.Identity())
