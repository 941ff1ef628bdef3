"""Data parallel training of one process, as DistributedDataParallel does it: losses of eager, and no entry more at each step."""

import warnings

import pytest
from compare import dynoc

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")
if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("no gloo", allow_module_level=True)


@pytest.fixture
def group(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def train(optimize, whole, steps=50):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)

    def loss_of(x, y):
        return ((torch.tanh(parallel(x)) * 2 - y) ** 2).mean()

    def step(x, y):
        optimizer.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        return loss

    fast = optimize(step if whole else loss_of)
    losses, entries = [], []
    for i in range(steps):
        x, y = torch.randn(5, 8), torch.randn(5, 4)
        if whole:
            losses.append(fast(x, y).item())
        else:
            optimizer.zero_grad()
            loss = fast(x, y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        entries.append(len(getattr(fast, "entries", ())))
    return losses, entries


@pytest.mark.parametrize("whole", [False, True])
def test_steps_have_no_entries_of_their_own(group, whole):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want, _ = train(lambda fn: fn, whole)
        dynoc.counters.clear()
        got, entries = train(lambda fn: dynoc.optimize(fn, wait=True), whole)
    assert got == pytest.approx(want, rel=1e-5)
    assert entries[5] == entries[-1], entries
    assert sum(dynoc.counters["recompiles"].values()) <= 4
