"""Random numbers for compiled code: keys, integers, uniforms, and normals in bulk.

Nothing here depends on libm, on numpy's generators or on what a compiler chooses to fuse, so a key gives the same
numbers on every machine and with every version of numpy. Quality is tested in tests/statistics/test_prior_noise.py.
"""
# mypy: ignore-errors
# (numba infers the types of kernels; intrinsics have no signature that mypy could read)

from typing import NamedTuple

import numpy as np

from fimsde.compiler import njit
from fimsde.prior.lanes import WIDTH, fma

u32, u64, i32, f32 = np.uint32, np.uint64, np.int32, np.float32

# Both belong to the bytes of every data set: with others, GENERATOR in prior/manifest.py has to change. By hand.
STREAMS = 64  # generators that run side by side, so that their loop becomes vector instructions
BUFFER = 1024  # normals made at a time; a multiple of 2 * STREAMS
_ODD = u64(0x9E3779B97F4A7C15)  # 2**64 divided by the golden ratio: splitmix64's increment


class Normals(NamedTuple):
    """A supply of standard normals: take them through `take`."""

    streams: np.ndarray  # uint32 (4, STREAMS): states of xoshiro128+ generators
    buffer: np.ndarray  # float32 (BUFFER + WIDTH,): the tail lets 32 numbers be loaded from any position
    used: np.ndarray  # int64 (1,): how much of the buffer is gone


@njit(cache=True)
def mix(z):
    """splitmix64's finaliser: 64 bits in, 64 well mixed bits out, one to one."""
    z = u64((z ^ (z >> u64(30))) * u64(0xBF58476D1CE4E5B9))
    z = u64((z ^ (z >> u64(27))) * u64(0x94D049BB133111EB))
    return u64(z ^ (z >> u64(31)))


@njit(cache=True)
def derive(key, number):
    """The key of child `number` of `key`: seeds, items, purposes and proposals are nested this way."""
    return mix(u64(mix(u64(key + _ODD)) + u64(number) * u64(0xD1342543DE82EF95)))


@njit(cache=True)
def bits(counter):
    """The next 64 bits of the splitmix64 sequence whose state is `counter` (1,)."""
    counter[0] += _ODD
    return mix(counter[0])


@njit(cache=True)
def uniform(counter):
    """A float64 number uniform on [0, 1)."""
    return (bits(counter) >> u64(11)) * 2.0**-53


@njit(cache=True)
def below(counter, n):
    """An integer uniform on 0..n-1, for n below 2**32; the bias is below n / 2**32."""
    return np.int64(((bits(counter) >> u64(32)) * u64(n)) >> u64(32))


@njit(cache=True)
def choose(counter, n, k, chosen):
    """Write k different numbers of 0..n-1, every choice and order equally likely, to chosen[:k] (chosen holds n)."""
    for j in range(n):
        chosen[j] = j
    for j in range(k):
        other = j + below(counter, n - j)
        chosen[j], chosen[other] = chosen[other], chosen[j]


@njit(cache=True)
def new_normals():
    """Storage for a supply of normals; `restart` gives it a key."""
    return Normals(np.empty((4, STREAMS), np.uint32), np.zeros(BUFFER + WIDTH, np.float32), np.zeros(1, np.int64))


@njit(cache=True)
def restart(normals, key):
    """Begin the normals of a key."""
    counter = np.full(1, key, np.uint64)
    for row in range(4):
        for stream in range(0, STREAMS, 2):
            pair = bits(counter)
            normals.streams[row, stream] = u32(pair)
            normals.streams[row, stream + 1] = u32(pair >> u64(32))
    normals.used[0] = BUFFER


@njit(cache=True, forceinline=True)
def take(normals, number):
    """The position in the buffer of `number` fresh normals (at most BUFFER)."""
    if normals.used[0] + number > BUFFER:
        fill(normals.streams, normals.buffer[:BUFFER])
        normals.used[0] = 0
    position = normals.used[0]
    normals.used[0] += number
    return position


@njit(cache=True)
def fill(streams, out):
    """Fill `out`, a multiple of 2 * STREAMS float32 numbers, with standard normals: Box-Muller on xoshiro128+.

    The radius has 31 random bits, so |z| can reach 6.6; errors of log, sin and cos are below 2e-7.
    """
    s0, s1, s2, s3 = streams[0], streams[1], streams[2], streams[3]
    for block in range(out.size // (2 * STREAMS)):
        cosines = out[2 * STREAMS * block :]
        sines = out[2 * STREAMS * block + STREAMS :]
        for s in range(STREAMS):
            a, b, c, d = s0[s], s1[s], s2[s], s3[s]
            first = u32(a + d)
            a, b, c, d = _xoshiro(a, b, c, d)
            second = u32(a + d)
            s0[s], s1[s], s2[s], s3[s] = _xoshiro(a, b, c, d)
            radius = np.sqrt(f32(-2.0) * _log((f32(i32(first >> u32(1))) + f32(0.5)) * f32(2.0**-31)))
            turn = f32(i32(i32(second) >> i32(8))) * f32(2.0**-24)  # in half turns, from -1/2 to 1/2
            square = turn * turn
            sign = i32(i32(second << u32(24)) & i32(-0x80000000))  # bit 7 puts the cosine on either half of the circle
            cosine = np.int32(np.float32(_cosine(square)).view(np.int32) ^ sign).view(np.float32)
            cosines[s] = radius * cosine
            sines[s] = radius * (turn * _sine_ratio(square))


@njit(inline="always")
def _xoshiro(a, b, c, d):
    shifted = u32(b << u32(9))
    c, d = u32(c ^ a), u32(d ^ b)
    b, a = u32(b ^ c), u32(a ^ d)
    return a, b, u32(c ^ shifted), u32(u32(d << u32(11)) | u32(d >> u32(21)))


# The three polynomials below are minimax fits (Lawson's algorithm, degrees 7, 4 and 4).


@njit(inline="always")
def _log(u):
    bit_pattern = np.float32(u).view(np.int32)
    exponent = i32(i32(bit_pattern - i32(0x3F3504F3)) >> i32(23))  # u = m 2^exponent, m from sqrt(1/2) to sqrt(2)
    y = np.int32(bit_pattern - i32(exponent << i32(23))).view(np.float32) - f32(1.0)
    p = fma(y, f32(-0.10378713), f32(0.16338145))
    p = fma(y, fma(y, p, f32(-0.17212427)), f32(0.19884236))
    p = fma(y, fma(y, p, f32(-0.2497156)), f32(0.33335608))
    p = fma(y, fma(y, p, f32(-0.50000344)), f32(0.99999992))
    return fma(f32(exponent), f32(0.6931472), y * p)  # never positive: near u = 1 the exponent is 0 and y tiny


@njit(inline="always")
def _cosine(square):
    p = fma(square, fma(square, f32(0.2196968), f32(-1.33188016)), f32(4.05841191))
    return fma(square, fma(square, p, f32(-4.93479286)), f32(0.99999995))


@njit(inline="always")
def _sine_ratio(square):
    p = fma(square, fma(square, f32(0.07765941), f32(-0.59829216)), f32(2.55007766))
    return fma(square, fma(square, p, f32(-5.16771009)), f32(3.14159264))
