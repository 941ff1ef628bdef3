"""Views, casts, new tensors, joins and lookups of tensors: captured, for every size one entry, and equal to eager."""

import pytest
from torch_cases import check, same, torch

import dynoc


def t(*shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(sum(shape) + len(shape))
    return torch.randn(*shape, generator=generator).to(dtype)


def places(*values):
    return torch.tensor(values)


def store_at(x, j):
    x[j] = 2.0


def store_where(x):
    x[x > 0] = 2.0


CASES = {
    "view": (lambda x: x.view(-1, 2) * 2, [t(3,4)],[t(5,6)]),
    "view2": (lambda x: (x.view(x.size(0), -1), x.view(x.shape[0], 2, -1)+1), [t(3,4)],[t(5,6)]),
    "viewsize": (lambda x: x.view(*x.shape[:-1], 2, -1) + 1, [t(3,4)],[t(5,6)]),
    "viewsize2": (lambda x: x.view(x.size()[:-1] + (2, x.size(-1)//2)) + 1, [t(3,4)],[t(5,6)]),
    "reshape_t": (lambda x: x.transpose(0,1).reshape(-1) + 1, [t(3,4)],[t(5,6)]),
    "attn": (
        lambda x: x.view(x.size(0), x.size(1), 2, -1).transpose(1,2).contiguous().view(x.size(0),-1),
        [t(3,4,6)],
        [t(5,6,8)],
    ),
    "flatten": (lambda x: (x.flatten(), x.flatten(1), torch.flatten(x,1,2)*2), [t(3,4,2)],[t(5,6,7)]),
    "unflatten": (lambda x: x.unflatten(1,(2,-1))+1, [t(3,4,2)],[t(5,6,7)]),
    "transposes": (
        lambda x: (x.transpose(0,1), x.mT, x.permute(2,0,1), x.movedim(0,-1)*2, x.swapaxes(0,2), torch.permute(x,(1,2,0))),
        [t(3,4,2)],
        [t(5,6,7)],
    ),
    "t": (lambda x: (x.t(), x.T, x.t()*2), [t(3,4)],[t(5,6)]),
    "squeeze": (lambda x: (x.unsqueeze(0).squeeze(0), x.unsqueeze(-1), x.unsqueeze(1).squeeze()+1), [t(3,4)],[t(5,6)]),
    "expand": (
        lambda x: (x.unsqueeze(1).expand(-1, 5, -1), x.expand(2,*x.shape)+1, x[:1].expand_as(x)),
        [t(3,4)],
        [t(5,6)],
    ),
    "narrow": (lambda x: (x.narrow(0,1,2), x.select(1,-1), torch.select(x,0,0)+1), [t(3,4)],[t(5,6)]),
    "chunk": (lambda x: [a*2 for a in x.chunk(2, dim=-1)], [t(3,4)],[t(5,7)]),
    "chunk3": (lambda x: torch.chunk(x, 3, 1), [t(3,9)],[t(5,12)]),
    "split": (lambda x: (x.split(2, dim=-1)[0]+1, torch.split(x,[1,3],1)), [t(3,4)],[t(5,4)]),
    "splith": (lambda x: x.split(x.shape[1]//2, dim=1), [t(3,4)],[t(5,6)]),
    "unbind": (lambda x: (x.unbind(0)[1]+1, torch.unbind(x,1)), [t(3,4)],[t(3,4)]),
    "tensor_split": (lambda x: x.tensor_split(3), [t(7)],[t(10)]),
    "unfold": (lambda x: x.unfold(0,3,2)+1, [t(7)],[t(10)]),
    "diagonal": (lambda x: (x.diagonal(), x.diagonal(1)+1), [t(3,4)],[t(5,6)]),
    "contig": (lambda x: (x.t().contiguous(), x.contiguous()), [t(3,4)],[t(5,6)]),
    "clone": (lambda x: (x.clone(), x.t().clone(), x.detach()), [t(3,4)],[t(5,6)]),
    "flip": (lambda x: (x.flip(0), torch.flip(x,[0,1]), x.roll(1,0)), [t(3,4)],[t(5,6)]),
    "casts": (
        lambda x: (
            x.double(),
            x.float(),
            x.long(),
            x.bool(),
            x.to(torch.float64),
            x.to("cpu"),
            x.to(torch.int32)+1,
            x.half(),
        ),
        [t(3,4)],
        [t(5,6)],
    ),
    "to_other": (
        lambda x,y: (x.to(y), x.type_as(y), x.to(y.dtype)+y),
        [t(3,4), t(1,dtype=torch.float64)],
        [t(5,6), t(1,dtype=torch.float64)],
    ),
    "copy_": (lambda x,y: (x.copy_(y), x.fill_(2.5), y.zero_()), [t(3,4), t(3,4)],[t(5,6), t(5,6)]),
    "zeros": (
        lambda x: (
            torch.zeros(x.shape[0],2),
            torch.ones((2,x.shape[1])),
            torch.zeros(x.shape),
            torch.full((2,3),1.5)+x.shape[0],
        ),
        [t(3,4)],
        [t(5,6)],
    ),
    "zeros_like": (
        lambda x: (
            torch.zeros_like(x),
            torch.ones_like(x,dtype=torch.int64),
            torch.full_like(x,2.0),
            x.new_zeros(x.shape[0]),
            x.new_ones(2,3),
        ),
        [t(3,4)],
        [t(5,6)],
    ),
    "dev": (
        lambda x: (torch.zeros(2,3,dtype=x.dtype,device=x.device), torch.ones(x.size(0), device="cpu")),
        [t(3,4)],
        [t(5,6)],
    ),
    "arange": (
        lambda x: (torch.arange(x.shape[0]), torch.arange(1,x.shape[1],2), torch.arange(x.shape[0],dtype=torch.float32)+1),
        [t(3,4)],
        [t(5,6)],
    ),
    "tensor": (
        lambda x: (torch.tensor(2.0)*x, torch.tensor([1.0,2.0]), torch.tensor(3), torch.tensor(x.shape[0])),
        [t(3,4)],
        [t(5,6)],
    ),
    "cat": (
        lambda x,y: (torch.cat([x,y]), torch.cat((x,y),dim=-1), torch.stack([x,y]), torch.stack([x,y],-1)+1),
        [t(3,4),t(3,4)],
        [t(5,6),t(5,6)],
    ),
    "cat_dt": (lambda x,y: torch.cat([x,y],1), [t(3,4),t(3,2,dtype=torch.float64)],[t(5,6),t(5,7,dtype=torch.float64)]),
    "hstack": (
        lambda x,y: (torch.hstack([x,y]), torch.vstack([x,y]), torch.hstack([x[0],y[0]]), torch.vstack([x[0],y[0]])),
        [t(3,4),t(3,4)],
        [t(5,6),t(5,6)],
    ),
    "repeat": (
        lambda x: (x.repeat(2,3), x.repeat(2,1,1), torch.tile(x,(2,)), x.repeat_interleave(2,dim=0)),
        [t(3,4)],
        [t(5,6)],
    ),
    "getidx": (lambda x,j: (x[j], x[:,j], x[j,j]), [t(3,4), places(0,2,1)],[t(5,6), places(3,-1)]),
    "getmask": (lambda x: x[x>0].sum(), [t(3,4)],[t(5,6)]),
    "setidx": (store_at, [t(3,4), places(0,2,1)],[t(5,6), places(3,-1)]),
    "setmask": (store_where, [t(3,4)],[t(5,6)]),
    "gather": (
        lambda x,j: x.gather(1,j)+1,
        [t(3,4),torch.tensor([[0,1],[1,2]])],
        [t(5,6),torch.tensor([[0,1,2],[1,2,2]])],
    ),
    "index_select": (lambda x,j: x.index_select(1,j)+1, [t(3,4), places(0,2,1)],[t(5,6), places(3,1)]),
    "scatter": (
        lambda x,j: torch.zeros(5,6).scatter_add(0,j,x),
        [t(3,4),torch.zeros(3,4,dtype=torch.long)],
        [t(2,4),torch.zeros(2,4,dtype=torch.long)],
    ),
    "scatter_": (
        lambda x,j: torch.zeros(5,6).scatter_add_(0,j,x),
        [t(3,4),torch.zeros(3,4,dtype=torch.long)],
        [t(2,4),torch.zeros(2,4,dtype=torch.long)],
    ),
    "tril": (lambda x: (x.tril(), torch.triu(x,1)), [t(3,4)],[t(5,6)]),
    "item": (lambda x: x.sum().item()+1, [t(3,4)],[t(5,6)]),
    "float": (lambda x: float(x.sum())+1, [t(3,4)],[t(5,6)]),
    "int": (lambda x: int(x.sum())+1, [t(3,4)],[t(5,6)]),
    "iter": (lambda x: [r+1 for r in x], [t(3,4)],[t(3,6)]),
    "rsub": (lambda x: (2-x, 2**x, 2/x), [t(3,4)],[t(3,6)]),
    "index_int": (lambda x, k: x[k]*2, [t(3,4),1],[t(3,6),2]),
    "bool": (lambda x: 1 if x.sum() > 1e9 else 2, [t(3,4)],[t(3,6)]),
    "channels_last": (lambda x: x.to(memory_format=torch.channels_last)*2, [t(2,3,4,5)],[t(3,4,6,7)]),
    "nc": (lambda x: (x.contiguous()*2, x.reshape(-1)), [t(3,4).t()],[t(5,6).t()]),
    "roll": (lambda x: (torch.roll(x,1), torch.roll(x,(1,2),(0,1))), [t(3,4)],[t(5,6)]),
    "setslice": (lambda x,y: x[:, 1:3].copy_(y), [t(3,4),t(3,2)],[t(5,6),t(5,2)]),
    "eye": (lambda x: torch.eye(x.shape[0])*2, [t(3,4)],[t(5,6)]),
    "linspace": (lambda x: torch.linspace(0,1,x.shape[0])*2, [t(3,4)],[t(5,6)]),
    "cumsum": (lambda x: x.cumsum(1), [t(3,4)],[t(5,6)]),
}


@pytest.mark.parametrize("name", CASES)
def test_captured(name):
    fn, *calls = CASES[name]
    check(fn, *calls)


def test_views_share_memory():
    def views(x):
        return x.view(-1), x.t(), x[1:].unsqueeze(0), x.detach(), x.chunk(2)[1], x.diagonal(), x.contiguous()

    fast = dynoc.optimize(views, wait=True)
    for n in (4, 6, 6):
        x = t(n, n)
        got, want = fast(x), views(x)
        for a, b in zip(got, want, strict=True):
            assert a.data_ptr() == b.data_ptr() and a.stride() == b.stride()
        assert got[-1] is x and got[3] is not x
        got[5].zero_()
        assert x.diagonal().eq(0).all()


def test_what_needs_no_conversion_is_itself():
    def casts(x):
        return x.float(), x.to(torch.float32), x.to("cpu"), x.type_as(x), x.flatten()

    fast = dynoc.optimize(casts, wait=True)
    for x in (t(5), t(6), t(6)):
        assert all(y is x for y in fast(x))


def test_a_view_that_eager_refuses_is_refused():
    fast = dynoc.optimize(lambda x: x.view(-1) + 1, wait=True)
    fast(t(3, 4))
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        fast(t(3, 4).t())
    with pytest.raises(RuntimeError, match="shape '\\[2, -1\\]' is invalid for input of size 9"):
        dynoc.optimize(lambda x: x.view(2, -1) + 1)(t(3, 3))


def test_places_that_are_not_there_raise():
    fast = dynoc.optimize(lambda x, j: x[j] * 2, wait=True)
    same(fast(t(5), places(1, -5)), t(5)[places(1, -5)] * 2)
    with pytest.raises(IndexError, match="out of bounds"):
        fast(t(5), places(1, 5))
