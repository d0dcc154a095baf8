"""Signals and images: filters, spectra, wavelets and warps."""

from benchmarks.case import Library


def images(library: Library):
    """A convolution, pooling and a Fourier filter of small images."""
    jnp, lax = library.numpy, library.lax
    image = jnp.sin(jnp.arange(2 * 16 * 16 * 3.0)).reshape(2, 16, 16, 3)
    kernel = jnp.cos(jnp.arange(3 * 3 * 3 * 4.0)).reshape(3, 3, 3, 4)

    def features(kernel, image):
        y = lax.conv_general_dilated(image, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return lax.reduce_window(library.nn.relu(y), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    spectrum = jnp.fft.fft2(image[0, :, :, 0])
    smooth = jnp.fft.ifft2(jnp.where(jnp.abs(spectrum) > 5, spectrum, 0)).real
    return [
        library.jit(features)(kernel, image),
        library.grad(lambda k: jnp.mean(features(k, image) ** 2))(kernel),
        smooth,
        jnp.pad(smooth, 2, mode="reflect"),
        jnp.roll(jnp.rot90(smooth), 3, axis=0),
        jnp.clip(image * 2.0, -1.0, 1.0).mean(axis=(1, 2)),
        jnp.clip(image, 0, 1).transpose(0, 3, 1, 2).astype(jnp.float16),
        image.at[:, 2:4].set(0.0).at[0, 0, 0].add(1.0),
    ]


def spectrogram(library: Library):
    """A noisy chirp: a Fourier filter, short-time spectra, an autocorrelation, and Haar wavelets."""
    jnp, random, lax = library.numpy, library.random, library.lax
    rate = 256
    t = jnp.arange(512) / rate
    chirp = jnp.sin(2 * jnp.pi * (10 * t + 15 * t**2))
    signal = chirp + 0.5 * random.normal(random.key(33), t.shape)

    spectrum = jnp.fft.rfft(signal)
    frequencies = jnp.fft.rfftfreq(len(signal), 1 / rate)
    passed = (frequencies > 5) & (frequencies < 80)
    filtered = jnp.fft.irfft(jnp.where(passed, spectrum, 0), n=len(signal))

    @library.jit
    def short_time(signal):
        starts = jnp.arange(0, 512 - 64 + 1, 32)
        frames = library.vmap(lambda start: lax.dynamic_slice(signal, (start,), (64,)))(starts)
        return jnp.abs(jnp.fft.rfft(frames * jnp.hanning(64))) ** 2

    power = short_time(signal)
    peaks = jnp.argmax(power, axis=1) * rate / 64
    decibels = 10 * jnp.log10(jnp.maximum(power / power.max(), 1e-6))
    padded = jnp.fft.fft(filtered, n=1024)
    autocorrelation = jnp.fft.ifft(padded * jnp.conj(padded)).real[:64]

    def haar(x):
        levels = []
        while len(x) > 32:
            pairs = x.reshape(-1, 2)
            levels.append((pairs[:, 0] - pairs[:, 1]) / jnp.sqrt(2))
            x = pairs.sum(axis=1) / jnp.sqrt(2)
        return x, levels

    def inverse(x, levels):
        for detail in levels[::-1]:
            x = jnp.stack([x + detail, x - detail], axis=1).ravel() / jnp.sqrt(2)
        return x

    coarse, levels = haar(signal)
    limit = jnp.median(jnp.abs(levels[0])) / 0.6745 * jnp.sqrt(2 * jnp.log(512.0))
    shrunk = [jnp.sign(d) * jnp.maximum(jnp.abs(d) - limit, 0) for d in levels]
    denoised = inverse(coarse, shrunk)
    decay = lax.scan(lambda y, x: (0.9 * y + 0.1 * x, y), 0.0, signal)[1]
    windowed = library.scipy.signal.fftconvolve(signal, jnp.hamming(15) / 8, mode="same")
    ratio = 10 * jnp.log10(jnp.var(chirp) / jnp.var(filtered - chirp))
    kept = sum(jnp.count_nonzero(d) for d in shrunk)
    return ratio, peaks, decibels[0], autocorrelation[:8], denoised[::32], kept, decay[::64], windowed[::64]


def image_warping(library: Library):
    """An image turned, blurred, resized and warped, its edges, and the shift between two by gradient descent."""
    jnp, lax = library.numpy, library.lax
    map_coordinates = library.scipy.ndimage.map_coordinates
    rows, columns = jnp.mgrid[:24, :24].astype(jnp.float32)
    image = jnp.exp(-((rows - 10) ** 2 + (columns - 14) ** 2) / 30) + 0.3 * ((rows // 6 + columns // 6) % 2)

    def rotated(image, angle):
        cos, sin = jnp.cos(angle), jnp.sin(angle)
        center = jnp.array([11.5, 11.5])[:, None]
        turn = jnp.array([[cos, -sin], [sin, cos]])
        positions = turn @ (jnp.stack([rows.ravel(), columns.ravel()]) - center) + center
        return map_coordinates(image, list(positions), order=1, mode="nearest").reshape(image.shape)

    turned = library.jit(rotated)(image, jnp.pi / 6)
    window = jnp.exp(-0.5 * jnp.linspace(-2, 2, 5) ** 2)
    window /= window.sum()
    blurred = jnp.apply_along_axis(lambda v: jnp.convolve(v, window, mode="same"), 0, image)
    blurred = jnp.apply_along_axis(jnp.convolve, 1, blurred, window, mode="same")
    sobel = jnp.array([[1.0, 0, -1], [2, 0, -2], [1, 0, -1]])
    horizontal = library.scipy.signal.convolve2d(blurred, sobel, mode="valid")
    vertical = library.scipy.signal.convolve2d(blurred, sobel.T, mode="valid")
    edges = jnp.hypot(horizontal, vertical)
    small = library.image.resize(image, (12, 12), method="bilinear")
    tiles = small.reshape(3, 4, 3, 4).swapaxes(1, 2).reshape(9, 4, 4)

    def shifted(shift):
        return map_coordinates(blurred, [rows + shift[0], columns + shift[1]], order=1, mode="constant")

    target = shifted(jnp.array([0.7, -0.4]))

    @library.jit
    @library.value_and_grad
    def loss(shift):
        return jnp.mean((shifted(shift) - target)[3:-3, 3:-3] ** 2)

    shift = jnp.zeros(2)
    for _ in range(8):
        value, gradient = loss(shift)
        shift = shift - 20 * gradient
    colors = jnp.stack([image, turned, blurred], axis=-1)
    gray = jnp.tensordot(colors, jnp.array([0.299, 0.587, 0.114]), axes=1)
    scaled = jnp.uint8(255 * (gray - gray.min()) / jnp.ptp(gray))
    threshold = jnp.where(edges > edges.mean() + edges.std(), 1, 0)
    dilated = lax.reduce_window(threshold, 0, lax.max, (3, 3), (1, 1), "SAME")
    results = [turned[::6, ::6], edges.max(axis=0), tiles.mean(axis=(1, 2)), shift, value]
    return results, dilated.sum(axis=0), jnp.bincount(scaled.ravel() // 64, length=4)


SCRIPTS = [images, spectrogram, image_warping]
