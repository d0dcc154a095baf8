"""Tables of numbers and categories: standardizing, grouping, counting, sorting, and conversions between dtypes."""

from benchmarks.case import Library


def eager_numpy(library: Library):
    """A table of numbers, standardized, masked and summarized, outside of `jit`."""
    jnp = library.numpy
    x = jnp.linspace(-3.0, 3.0, 600).reshape(100, 6)
    y = jnp.sin(x) + 0.1 * jnp.exp(-(x**2))
    z = (y - jnp.mean(y, axis=0)) / (jnp.std(y, axis=0) + 1e-6)
    covariance = z.T @ z / len(z)
    kept = jnp.where(jnp.abs(z) > 1.5, 0.0, z)
    order = jnp.argsort(jnp.linalg.norm(kept, axis=1))
    weights = jnp.exp(-jnp.arange(6) / 2.0)
    scores = jnp.einsum("ij,j->i", kept[order], weights / jnp.sum(weights))
    folded = jnp.concatenate([scores[:50], jnp.flip(scores[50:])]).reshape(2, 50)
    quantiles = jnp.percentile(scores, jnp.array([5.0, 50.0, 95.0]))
    angles = jnp.arctan2(folded[0], folded[1])
    counts = jnp.histogram(angles, bins=10)[0]
    summary = jnp.median(angles), jnp.var(angles), jnp.trace(covariance)
    return jnp.cumsum(folded, axis=1), covariance, quantiles, counts, summary


def grouped_table(library: Library):
    """Orders of customers: sets, sums by group, ranks, look-ups, and conversions between dtypes."""
    jnp, random, ops = library.numpy, library.random, library.ops
    keys = random.split(random.key(9), 4)
    customers = random.randint(keys[0], (200,), 0, 30)
    prices = jnp.round(random.exponential(keys[1], (200,)) * 100) / 100
    days = random.randint(keys[2], (200,), 0, 365).astype(jnp.int16)

    unique, inverse, counts = jnp.unique(customers, return_inverse=True, return_counts=True)
    totals = ops.segment_sum(prices, inverse, num_segments=len(unique))
    largest = ops.segment_max(prices, inverse, num_segments=len(unique))
    means = totals / counts
    best = unique[jnp.argsort(-totals)[:5]]
    by_month = jnp.bincount(days // 31, weights=prices, length=12)
    bins = jnp.array([0.5, 1.0, 2.0])
    categories = jnp.digitize(prices, bins)
    table = jnp.zeros((4, 12)).at[categories, days // 31].add(prices)
    positions = jnp.searchsorted(jnp.sort(prices), jnp.array([0.1, 1.0, 3.0], jnp.float16), side="right")
    by_day = jnp.lexsort((prices, days))
    top, index = library.lax.top_k(prices, 3)
    cents = (prices * 100).astype(jnp.int32)
    packed = jnp.packbits(cents[:16] % 2 == 0)
    flags = (cents.astype(jnp.uint8) & 7) ^ (cents >> 2).astype(jnp.uint8)
    half = jnp.asarray(prices, dtype="bfloat16").astype(jnp.float32)
    common = jnp.intersect1d(customers[:40], customers[40:80])
    missing = jnp.setdiff1d(jnp.arange(30), customers[:50])
    rank = jnp.empty(200, jnp.int32).at[by_day].set(jnp.arange(200))
    known = jnp.isin(customers, best)
    filled = jnp.nan_to_num(jnp.where(known, prices, jnp.nan), nan=-1.0)
    spread = jnp.nanmax(jnp.where(known, prices, jnp.nan)) - jnp.nanmin(jnp.where(known, prices, jnp.nan))
    counted = [best, counts, table, positions, rank[:10], index, packed, flags[:10], common, missing]
    return counted, [means, largest, by_month, top, half[:10], filled[:10], spread]


SCRIPTS = [eager_numpy, grouped_table]
