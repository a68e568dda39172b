"""Tokens become encoded tokens, by linear self-attention."""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from fimsde.model.attention import LinearAttention, ResidualBlock
from fimsde.model.banks import Banks
from fimsde.model.config import ModelConfig
from fimsde.model.paper import Tokens

Source = Tokens | Banks  # data as a model reads them


class EncoderLayer(nn.Module):
    """Linear self-attention over the transitions and the block around it."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention = LinearAttention(config)
        self.block = ResidualBlock(config)

    def forward(
        self, x: Float[Tensor, "batch n embed"], mask: Bool[Tensor, "batch n"]
    ) -> Float[Tensor, "batch n embed"]:
        return self.block(x, self.attention(x, mask))


class Encoder(nn.Module):
    """Tokens to encoded transitions or cells. Their order carries no meaning: there is no positional information."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.features = config.reader.features()
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))

    def forward(self, source: Source) -> tuple[Float[Tensor, "rows n embed"], Bool[Tensor, "rows n"]]:
        """Encoded tokens, and which of them are real."""
        x, mask = self.features(source)
        for layer in self.layers:
            x = layer(x, mask)
        return x, mask
