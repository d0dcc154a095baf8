"""The main job, end to end: `python -m xpr.demo` trains a small network on real handwritten digits.

data.py       the images and their labels
model.py      the network, its loss, its gradients
adam.py       the optimizer, written by hand
train.py      the training loop
progress.py   the bar
report.py     images and tables as text
plot.py       loss and accuracy curves
"""
