from torch import nn

from torchtitan.models.common import Made


class Llama3TransformerBlock(nn.Module):
    @staticmethod
    def Config(**parts):
        return Made(of=Llama3TransformerBlock, arguments=parts)

    def __init__(self, attention_norm, ffn_norm, attention, feed_forward):
        super().__init__()
        self.attention_norm, self.ffn_norm = attention_norm.build(), ffn_norm.build()
        self.attention, self.feed_forward = attention.build(), feed_forward.build()

    def forward(self, x, attention_masks, positions=None):
        x = x + self.attention(self.attention_norm(x), attention_masks, positions)
        return x + self.feed_forward(self.ffn_norm(x))
