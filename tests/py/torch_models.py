"""Models that the tests of PyTorch capture: standard architectures, small, with random weights.

MODELS has for each name a function that makes the module and one that makes the arguments for a batch size and a length.
"""

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402


class LLTM(nn.Module):
    """The cell of PyTorch's tutorial on C++ extensions: an LSTM without a forget gate, with ELU."""

    def __init__(self, inputs=8, state=16):
        super().__init__()
        self.weights = nn.Parameter(torch.randn(3 * state, inputs + state) / state**0.5)
        self.bias = nn.Parameter(torch.randn(3 * state))

    def forward(self, input, state):
        old_h, old_cell = state
        X = torch.cat([old_h, input], dim=1)
        gate_weights = F.linear(X, self.weights, self.bias)
        gates = gate_weights.chunk(3, dim=1)
        input_gate = torch.sigmoid(gates[0])
        output_gate = torch.sigmoid(gates[1])
        candidate_cell = F.elu(gates[2])
        new_cell = old_cell + candidate_cell * input_gate
        new_h = torch.tanh(new_cell) * output_gate
        return new_h, new_cell


class Bottleneck(nn.Module):
    """The block of ResNet-50 and, with groups, of ResNeXt."""

    expansion = 2

    def __init__(self, inputs, planes, stride=1, groups=4):
        super().__init__()
        out = planes * self.expansion
        self.conv1, self.bn1 = nn.Conv2d(inputs, planes, 1, bias=False), nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, stride, 1, groups=groups, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3, self.bn3 = nn.Conv2d(planes, out, 1, bias=False), nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inputs != out:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class Basic(nn.Module):
    """The block of ResNet-18."""

    expansion = 1

    def __init__(self, inputs, planes, stride=1):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, planes, 3, stride, 1, bias=False), nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2, self.bn2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False), nn.BatchNorm2d(planes)
        self.downsample = None
        if stride != 1 or inputs != planes:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, planes, 1, stride, bias=False), nn.BatchNorm2d(planes))

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    """Four stages of blocks behind a stem of a convolution and a pool."""

    def __init__(self, block, blocks, width=8, classes=10):
        super().__init__()
        self.inputs = width
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = self.stage(block, width, blocks[0], 1)
        self.layer2 = self.stage(block, 2 * width, blocks[1], 2)
        self.layer3 = self.stage(block, 4 * width, blocks[2], 2)
        self.layer4 = self.stage(block, 8 * width, blocks[3], 2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(8 * width * block.expansion, classes)

    def stage(self, block, planes, n, stride):
        layers = [block(self.inputs, planes, stride)]
        self.inputs = planes * block.expansion
        layers += [block(self.inputs, planes) for _ in range(1, n)]
        return nn.Sequential(*layers)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        x = torch.flatten(self.avgpool(x), 1)
        return self.fc(x)


class ViT(nn.Module):
    """A vision transformer: patches, a class token, positions, encoder layers."""

    def __init__(self, size=16, patch=4, width=16, heads=2, depth=2, classes=10):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width))
        self.blocks = nn.ModuleList(ViTBlock(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class ViTBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * width, width))

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, c)
        x = x + self.proj(y)
        return x + self.mlp(self.norm2(x))


class LanguageModel(nn.Module):
    """Word embedding, a recurrent network, and scores for the next word."""

    def __init__(self, kind, words=50, width=16, layers=2):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.rnn = getattr(nn, kind)(width, width, layers, batch_first=True, dropout=0.1)
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        x, state = self.rnn(self.embedding(tokens))
        return self.head(x), state


class UNet(nn.Module):
    """Two steps down, two up, with what was there on the way down joined in."""

    def __init__(self, width=4):
        super().__init__()
        self.down1, self.down2 = self.twice(3, width), self.twice(width, 2 * width)
        self.middle = self.twice(2 * width, 4 * width)
        self.up2, self.right2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2), self.twice(4 * width, 2 * width)
        self.up1 = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.right1 = self.twice(3 * width, width)
        self.pool, self.out = nn.MaxPool2d(2), nn.Conv2d(width, 2, 1)

    @staticmethod
    def twice(a, b):
        first, second = nn.Conv2d(a, b, 3, padding=1), nn.Conv2d(b, b, 3, padding=1)
        return nn.Sequential(first, nn.BatchNorm2d(b), nn.ReLU(), second, nn.BatchNorm2d(b), nn.ReLU())

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(self.pool(a))
        y = self.middle(self.pool(b))
        y = self.right2(torch.cat([self.up2(y), b], dim=1))
        y = self.right1(torch.cat([self.up1(y), a], dim=1))
        return self.out(y)


class DLRM(nn.Module):
    """Dense features through an MLP, sparse ones through bags of embeddings, their products, and a click's probability."""

    def __init__(self, tables=3, rows=20, width=8, dense=5):
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(dense, 16), nn.ReLU(), nn.Linear(16, width), nn.ReLU())
        n = tables + 1
        self.top = nn.Sequential(nn.Linear(width + n * (n - 1) // 2, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid())
        self.register_buffer("pairs", torch.tril_indices(n, n, -1), persistent=False)

    def forward(self, dense, sparse):
        x = self.bottom(dense)
        parts = [x] + [bag(sparse[:, i]) for i, bag in enumerate(self.bags)]
        t = torch.stack(parts, dim=1)
        z = torch.bmm(t, t.transpose(1, 2))
        z = z[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([x, z], dim=1))


class VAE(nn.Module):
    """A variational autoencoder that draws its code when it is evaluated too."""

    def __init__(self, size=12, hidden=16, code=4):
        super().__init__()
        self.fc1, self.fc21, self.fc22 = nn.Linear(size, hidden), nn.Linear(hidden, code), nn.Linear(hidden, code)
        self.fc3, self.fc4 = nn.Linear(code, hidden), nn.Linear(hidden, size)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std

    def forward(self, x):
        mu, logvar = self.encode(x)
        z = self.reparameterize(mu, logvar)
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mu, logvar


def images(b, n):
    return (torch.randn(b, 3, 8 * n, 8 * n),)


def tokens(b, n):
    return (torch.randint(0, 50, (b, n)),)


MODELS = {
    "lltm": (LLTM, lambda b, n: (torch.randn(b, 8), (torch.randn(b, 16), torch.randn(b, 16)))),
    "mlp": (
        lambda: nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 32), nn.Tanh(), nn.Dropout(), nn.Linear(32, 4)),
        lambda b, n: (torch.randn(b, n, 12),),
    ),
    "resnet18": (lambda: ResNet(Basic, [2, 2, 2, 2]), images),
    "resnext": (lambda: ResNet(Bottleneck, [1, 2, 1, 1]), images),
    "vit": (ViT, lambda b, n: (torch.randn(b, 3, 16, 16),)),
    "lstm": (lambda: LanguageModel("LSTM"), tokens),
    "gru": (lambda: LanguageModel("GRU"), tokens),
    "unet": (UNet, images),
    "dlrm": (DLRM, lambda b, n: (torch.randn(b, 5), torch.randint(0, 20, (b, 3, n)))),
    "vae": (VAE, lambda b, n: (torch.randn(b, 12),)),
}
