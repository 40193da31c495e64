"""Writes tests/optimizer_goldens.txt and .bin: 20 steps of every optimizer, schedule and average on one small layer.

    python tests/make_optimizer_goldens.py      (PyTorch 2.13, CPU)

y = x w^T + b, loss mean (y - t)^2 on a fresh batch in each step; weights and batches follow a formula that C states too
(`number`). Reference values are PyTorch's in float64. Lion and LAMB, which PyTorch has not, stand here.
"""
import torch

import goldens

STEPS, IN, OUT, BATCH = 20, 5, 3, 4


def number(k, i):
    """Element i of tensor k, in [-1, 1), the same to the last bit in C."""
    return (((i * 2654435761 + k * 374761393 + 12345) % 2**32) >> 8) / 2**23 - 1


def tensor(k, *shape):
    n = torch.Size(shape).numel()
    return torch.tensor([number(k, i) for i in range(n)], dtype=torch.float64).reshape(shape)


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(group["lr"] * torch.sign(b1 * m + (1 - b1) * p.grad))
                m.mul_(b2).add_((1 - b2) * p.grad)


class Lamb(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                s = self.state[p]
                m, v = s.setdefault("exp_avg", torch.zeros_like(p)), s.setdefault("exp_avg_sq", torch.zeros_like(p))
                s["step"] = s.get("step", 0) + 1
                m.mul_(b1).add_((1 - b1) * p.grad)
                v.mul_(b2).add_((1 - b2) * p.grad**2)
                u = m / (1 - b1 ** s["step"]) / ((v / (1 - b2 ** s["step"])).sqrt() + group["eps"]) + group["weight_decay"] * p
                a, b = p.norm(), u.norm()
                p.sub_(group["lr"] * (a / b if a > 0 and b > 0 else 1) * u)


class Net:
    def __init__(self):
        self.w, self.b = (torch.nn.Parameter(tensor(k, *s)) for k, s in ((0, (OUT, IN)), (1, (OUT,))))

    def params(self):
        return [self.w, self.b]

    def backward(self, k, part=1):
        x, t = tensor(2 + 2 * k, BATCH, IN), tensor(3 + 2 * k, BATCH, OUT)
        (((x @ self.w.T + self.b - t) ** 2).mean() * part).backward()


O, S = torch.optim, torch.optim.lr_scheduler
OPTIMIZERS = [
    lambda p: O.SGD(p, lr=0.1, weight_decay=0.01),
    lambda p: O.SGD(p, lr=0.1, momentum=0.9, dampening=0.25),
    lambda p: O.SGD(p, lr=0.1, momentum=0.9, nesterov=True, maximize=True),
    lambda p: O.Adam(p, lr=0.01, weight_decay=0.1),
    lambda p: O.AdamW(p, lr=0.01, weight_decay=0.1),
    lambda p: O.Adam(p, lr=0.01, weight_decay=0.1, amsgrad=True),
    lambda p: O.AdamW(p, lr=0.01, betas=(0.8, 0.9), amsgrad=True, weight_decay=0, maximize=True),
    lambda p: O.RMSprop(p, lr=0.01, weight_decay=0.1),
    lambda p: O.RMSprop(p, lr=0.01, alpha=0.9, momentum=0.9),
    lambda p: O.RMSprop(p, lr=0.01, centered=True),
    lambda p: O.RMSprop(p, lr=0.01, centered=True, momentum=0.5, eps=1e-3),
    lambda p: O.Adagrad(p, lr=0.1, lr_decay=0.1, weight_decay=0.01),
    lambda p: O.Adagrad(p, initial_accumulator_value=0.5),
    lambda p: O.Adadelta(p, weight_decay=0.01),
    lambda p: O.Adadelta(p, lr=0.5, rho=0.7, eps=1e-3),
    lambda p: O.Adamax(p, weight_decay=0.01),
    lambda p: O.Adamax(p, lr=0.05, betas=(0.7, 0.9)),
    lambda p: O.NAdam(p, weight_decay=0.01),
    lambda p: O.NAdam(p, lr=0.01, momentum_decay=0.1, weight_decay=0.1, decoupled_weight_decay=True),
    lambda p: O.RAdam(p, lr=0.01, weight_decay=0.01),
    lambda p: O.RAdam(p, lr=0.01, betas=(0.9, 0.95), weight_decay=0.1, decoupled_weight_decay=True),
    lambda p: Lion(p, lr=0.01, weight_decay=0.1),
    lambda p: Lamb(p, lr=0.01, weight_decay=0.1),
    lambda p: Lamb(p, lr=0.05),
]
SCHEDULES = [
    lambda o: S.StepLR(o, 6),
    lambda o: S.MultiStepLR(o, [3, 7, 7, 15], gamma=0.5),
    lambda o: S.ExponentialLR(o, 0.9),
    lambda o: S.PolynomialLR(o, 12, power=2.5),
    lambda o: S.LinearLR(o, start_factor=0.1, end_factor=0.8, total_iters=9),
    lambda o: S.ConstantLR(o),
    lambda o: S.CosineAnnealingLR(o, 8, eta_min=0.01),
    lambda o: S.CosineAnnealingWarmRestarts(o, 4, T_mult=2, eta_min=0.01),
    lambda o: S.CosineAnnealingWarmRestarts(o, 6),
    lambda o: S.OneCycleLR(o, 0.1, total_steps=STEPS + 1, cycle_momentum=False),
    lambda o: S.OneCycleLR(o, 0.1, total_steps=STEPS + 1, anneal_strategy="linear", three_phase=True, cycle_momentum=False),
    lambda o: S.CyclicLR(o, 0.01, 0.1, step_size_up=4, step_size_down=3, cycle_momentum=False),
    lambda o: S.CyclicLR(o, 0.01, 0.1, step_size_up=3, mode="triangular2", cycle_momentum=False),
    lambda o: S.CyclicLR(o, 0.01, 0.1, step_size_up=3, mode="exp_range", gamma=0.9, cycle_momentum=False),
    lambda o: S.SequentialLR(o, [S.LinearLR(o, start_factor=0.25, total_iters=4), S.CosineAnnealingLR(o, 12)], [4]),
    lambda o: S.LambdaLR(o, lambda t: 1 / (1 + t)),
]
CYCLED = [
    (lambda p: O.SGD(p, lr=0.1, momentum=0.9), lambda o: S.OneCycleLR(o, 0.1, total_steps=STEPS + 1)),
    (lambda p: O.SGD(p, lr=0.1), lambda o: S.OneCycleLR(o, 0.1, total_steps=STEPS + 1, anneal_strategy="linear", three_phase=True)),
    (lambda p: O.SGD(p, lr=0.1, momentum=0.5, nesterov=True),
     lambda o: S.CyclicLR(o, 0.01, 0.1, step_size_up=3, mode="triangular2", base_momentum=0.7, max_momentum=0.85)),
    (lambda p: O.AdamW(p, lr=0.01, weight_decay=0.1), lambda o: S.OneCycleLR(o, 0.1, total_steps=STEPS + 1)),
    (lambda p: O.Adam(p, lr=0.01, weight_decay=0.1),
     lambda o: S.OneCycleLR(o, 0.1, total_steps=STEPS + 1, three_phase=True, base_momentum=0.6, max_momentum=0.9)),
    (lambda p: O.Adam(p, lr=0.01, betas=(0.9, 0.95), amsgrad=True),
     lambda o: S.CyclicLR(o, 0.01, 0.1, step_size_up=4, step_size_down=3, mode="exp_range", gamma=0.9)),
    (lambda p: O.RMSprop(p, lr=0.01, momentum=0.5, centered=True), lambda o: S.OneCycleLR(o, 0.1, total_steps=STEPS + 1)),
    (lambda p: O.NAdam(p, lr=0.01, momentum_decay=0.1, weight_decay=0.1), lambda o: S.OneCycleLR(o, 0.1, total_steps=STEPS + 1)),
    (lambda p: O.RAdam(p, lr=0.01, betas=(0.9, 0.95), weight_decay=0.1, decoupled_weight_decay=True),
     lambda o: S.OneCycleLR(o, 0.1, total_steps=STEPS + 1)),
    (lambda p: O.Adamax(p, lr=0.05, weight_decay=0.01),
     lambda o: S.CyclicLR(o, 0.01, 0.1, step_size_up=4, step_size_down=3, mode="exp_range", gamma=0.9)),
    (lambda p: Lion(p, lr=0.01, weight_decay=0.1), lambda o: S.OneCycleLR(o, 0.1, total_steps=STEPS + 1)),
    (lambda p: Lamb(p, lr=0.01, weight_decay=0.1), lambda o: S.OneCycleLR(o, 0.1, total_steps=STEPS + 1)),
]
LATE = [  # rates far out: of (schedule, step)
    (lambda o: S.CosineAnnealingLR(o, 1000000), 999000), (lambda o: S.CosineAnnealingLR(o, 1000000), 333333),
    (lambda o: S.ExponentialLR(o, 0.99999), 500000), (lambda o: S.PolynomialLR(o, 3000000, power=2.0), 2999000),
]


def plateau(o):
    return S.ReduceLROnPlateau(o, factor=0.5, patience=2, cooldown=1, min_lr=0.02)


def metric(k):
    return [1.0, 0.9, 0.95, 0.91, 0.92, 0.93, 0.8, 0.8, 0.8, 0.8, 0.8, 0.9, 0.9, 0.9, 0.9, 0.9, 0.7, 0.71, 0.72, 0.73][k]


def flat(tensors):
    return [v for t in tensors for v in t.detach().flatten().tolist()]


def train(make):
    net = Net()
    o = make(net.params())
    for k in range(STEPS):
        o.zero_grad()
        net.backward(k)
        o.step()
    return flat(net.params())


def rates(make):
    o = O.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    s, found = make(o), []
    for k in range(STEPS):
        found.append(o.param_groups[0]["lr"])
        o.step()
        s.step(metric(k)) if isinstance(s, S.ReduceLROnPlateau) else s.step()
    return found


def cycle(make, schedule):
    """Weights at the end, and the momentum of every step."""
    net, found = Net(), []
    o = make(net.params())
    s = schedule(o)
    for k in range(STEPS):
        group = o.param_groups[0]
        found.append(group["betas"][0] if "betas" in group else group["momentum"])
        o.zero_grad()
        net.backward(k)
        o.step()
        s.step()
    return flat(net.params()), found


def late(make, at):
    o = O.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    s = make(o)
    s.last_epoch = at
    return s._get_closed_form_lr()[0]


def accumulate(n, clip):
    """20 runs, an update in every n-th; what is left at the end is flushed, averaged over its runs."""
    net = Net()
    o = O.AdamW(net.params(), lr=0.01, weight_decay=0.1)
    for k in range(STEPS):
        first = k // n * n
        net.backward(k, 1 / min(n, STEPS - first))
        if (k + 1) % n == 0 or k + 1 == STEPS:
            torch.nn.utils.clip_grad_norm_(net.params(), clip)
            o.step()
            o.zero_grad()
    return flat(net.params())


def averages(fn):
    net = Net()
    module = torch.nn.ParameterList(net.params())
    average = torch.optim.swa_utils.AveragedModel(module, multi_avg_fn=fn)
    o = O.AdamW(net.params(), lr=0.01, weight_decay=0.1)
    for k in range(STEPS):
        o.zero_grad()
        net.backward(k)
        o.step()
        average.update_parameters(module)
    return flat(average.module)


def main():
    torch.set_default_dtype(torch.float64)
    swa = torch.optim.swa_utils
    table = goldens.Table("tests/make_optimizer_goldens.py")
    table.array("after", [train(make) for make in OPTIMIZERS])
    table.array("rates", [rates(make) for make in SCHEDULES + [plateau]])
    table.array("late_rates", [late(make, at) for make, at in LATE])
    cycled = [cycle(*pair) for pair in CYCLED]
    table.array("cycled", [w for w, m in cycled])
    table.array("momenta", [m for w, m in cycled])
    table.array("accumulated", [accumulate(3, 0.05), accumulate(4, 1.0)])
    table.array("averaged", [averages(swa.get_ema_multi_avg_fn(0.9)), averages(swa.get_swa_multi_avg_fn())])
    table.write("optimizer_goldens")


if __name__ == "__main__":
    main()
