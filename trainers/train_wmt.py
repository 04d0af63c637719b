"""Trains a translation model from text to a scored SavedModel (paper sections 5 and 6.1).

With no argument it runs the built-in synthetic demo: `python trainers/train_wmt.py`.
"""

import sys

from keras_transformer.cli import train_main

if __name__ == "__main__":
    sys.exit(train_main())
