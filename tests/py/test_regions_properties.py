"""Native loops that set properties of instances: their setters run in place, and what they raise is CPython's."""

from regions import Thing, check


class Measured(Thing):
    def __init__(self, celsius):
        self.kept, self.stores = celsius, 0

    @property
    def fahrenheit(self):
        return self.kept * 9 / 5 + 32

    @fahrenheit.setter
    def fahrenheit(self, value):
        if value > 400:
            raise ValueError(value)
        self.kept = (value - 32) * 5 / 9
        self.stores += 1


class Clipped(Thing):
    __slots__ = ("low",)

    @property
    def value(self):
        return self.low

    @value.setter
    def value(self, value):
        self.low = value if value > 0 else 0.0


def warmed(items, by, total):
    for item in items:
        item.fahrenheit += by
        total += item.fahrenheit
    return total, [(item.kept, item.stores) for item in items]


def clipped(items, by):
    for i, item in enumerate(items):
        item.value = i * by
        other = Clipped()
        other.value = item.value - 1.5
        item.value = other.value
    return [item.value for item in items], other.value


def test_properties_that_are_set():
    items = [Measured(float(i)) for i in range(5)]
    assert "put.float" in check(warmed, (items, 0.5, 0.0), [iter(items)])
    slotted = [Clipped() for _ in range(4)]
    for item in slotted:
        item.low = 0.5
    check(clipped, (slotted, 1.25), [enumerate(slotted)])


def test_setters_that_raise():
    items = [Measured(float(i * 60)) for i in range(5)]
    check(warmed, (items, 0.5, 0.0), [iter(items)])
