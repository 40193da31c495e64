"""What the PyTorch peers share."""
import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from peer import THREADS, read_weights

torch.set_num_threads(THREADS)


def maybe_compiled(f, peer):
    return torch.compile(f, dynamic=False) if peer.endswith("-compile") else f


IS_CHANNELS_FIRST = os.environ.get("TENURE_PEER_LAYOUT") == "first"  # else images have channels last


def in_layout(images):
    if IS_CHANNELS_FIRST:
        return images.contiguous()
    return images.contiguous(memory_format=torch.channels_last) if images.dim() == 4 else images


def load(net, path, tied=None):
    """tied: a weight of the file that the net has under another name."""
    net.load_state_dict({name: torch.from_numpy(v) for name, v in read_weights(path).items() if name != tied})


class Block(nn.Module):
    """Of a GPT: bench_gpt_block makes the same. attend: q, k, v [.., heads, size] -> the same shape."""

    def __init__(self, wide, heads):
        super().__init__()
        self.heads = heads
        self.l1, self.l2 = nn.LayerNorm(wide), nn.LayerNorm(wide)
        self.qkv, self.p = nn.Linear(wide, 3 * wide), nn.Linear(wide, wide)
        self.f, self.g = nn.Linear(wide, 4 * wide), nn.Linear(4 * wide, wide)

    def forward(self, x, attend):
        q, k, v = self.qkv(self.l1(x)).unflatten(-1, (3, self.heads, -1)).unbind(-3)
        x = x + self.p(attend(q, k, v).reshape(x.shape))
        return x + self.g(F.gelu(self.f(self.l2(x))))


def given_out(profile):
    """The most bytes that the allocator has given out at once since the profile began, beyond what was there."""
    now = most = 0
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    for e in sorted(events, key=lambda e: e.start_ns()):
        now += e.nbytes()
        most = max(most, now)
    return most


def bytes_between(optimizer):
    params = [p for group in optimizer.param_groups for p in group["params"]]
    moments = [v for state in optimizer.state.values() for v in state.values() if torch.is_tensor(v)]
    return sum(t.numel() * t.element_size() for t in params + moments)


def again_of(peer, net=None):
    """again(budget): net.again lets layers run again in the backward; the compiler chooses what does under a budget."""

    def again(budget=None):
        if peer.endswith("-compile"):
            torch._functorch.config.activation_memory_budget = float(budget)
            torch._dynamo.reset()
        elif net is None:
            return False
        else:
            net.again = True
        return True

    return again


def run_layer(layer, again, *args):
    return checkpoint(layer, *args, use_reentrant=False, preserve_rng_state=False) if again else layer(*args)


def trainer(optimizer, loss_of):
    """step() -> loss before the update; step.peak() behind the first."""

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of()
        loss.backward()
        optimizer.step()
        return loss

    def peak():
        optimizer.zero_grad(set_to_none=True)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
            step()
        return given_out(profile), bytes_between(optimizer)

    step.peak = peak
    return step


def third_loss(step):
    def check():
        step()
        step()
        return step().item()

    return check
