"""Native loops around calls that branch behind a store: where one is left within the call, CPython begins the call anew, with
what lay on its stack in front of it."""

import dynoc
from regions import Thing, check


class Ball(Thing):
    __slots__ = ("x", "v")

    def __init__(self, x, v):
        self.x, self.v = x, v

    def step(self, dt):
        self.x += self.v * dt
        if self.x < 0 or self.x > 1:
            self.v = -self.v

    def bounce(self, low, high):
        self.x += self.v
        if self.x < low:
            self.x, self.v = low, -self.v
            return 1
        if self.x > high:
            self.x, self.v = high, -self.v
            return 2
        return 0


class Box(Thing):
    __slots__ = ("balls",)

    def __init__(self, balls):
        self.balls = balls

    def step(self, i):
        ball = self.balls[i]
        ball.x += ball.v
        return ball if ball.x > 2 else None


def stepped(balls, n, dt):
    for _ in range(n):
        for ball in balls:
            ball.step(dt)
    return balls


def bounced(balls, n, low, hits):
    for i in range(n):
        for ball in balls:
            hits += ball.bounce(low, 3) * i
    return balls, hits


def either(balls, n, found):
    for i in range(n):
        for ball in balls:
            found += (ball.bounce(0, 2) or i) + ball.bounce(-1, 1)
    return balls, found


def of_a_box(box, n, seen):
    for i in range(n):
        if box.step(i % len(box.balls)) is not None:
            seen += 1
    return box, seen


def test_a_method_branches_behind_a_store():
    for balls in ([Ball(0.5, 1.0), Ball(0.1, -2.0), Ball(0.9, 0.25)], [Ball(1, 2), Ball(0, -1)]):
        check(bounced, (balls, 3, 0, 0), [iter(range(3))])
        for loop in range(2):
            stack = [iter(range(3))] + [iter(balls)] * loop
            check(stepped, (balls, 3, 0.25 if loop else 1), stack, loop)


def test_what_lies_on_the_stack_is_there_again():
    balls = [Ball(0.5, 1.0), Ball(0.1, -2.0), Ball(0.9, 0.25)]
    check(either, (balls, 3, 0), [iter(range(3))])
    check(of_a_box, (Box(balls), 5, 0), [iter(range(5))])


def test_such_loops_are_native():
    balls = [Ball(i / 50, (i % 7 - 3) / 10) for i in range(20)]
    expected = [(b.x, b.v) for b in stepped([Ball(b.x, b.v) for b in balls], 100, 0.01)]
    fast = dynoc.optimize(stepped, wait=True)
    for _ in range(4):
        made = fast([Ball(b.x, b.v) for b in balls], 100, 0.01)
        assert [(b.x, b.v) for b in made] == expected
    assert fast.loops[0].startswith("native")
