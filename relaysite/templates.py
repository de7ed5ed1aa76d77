"""Loads the site's templates without the indentation of their lines: it is for whoever reads the file.

A page with a thousand rows would else carry it a thousand times, and each region is sent anew with each change.
"""

import re

from django.template import Origin
from django.template.loaders.filesystem import Loader

_INDENTATION = re.compile(r"^[ \t]+", re.MULTILINE)


class Unindented(Loader):
    """The file's text with each line begun at its first sign; lines keep their numbers.

    Text inside `<pre>` and `<textarea>` comes from a variable, never from the lines of a template.
    """

    def get_contents(self, origin: Origin) -> str:
        return _INDENTATION.sub("", super().get_contents(origin))
