"""A shop that serves its ingress until it is killed; prints where."""

from __future__ import annotations

import sys
import threading

from headwater.server.ingress import serve_ingress
from tests.server.ingress.shop import Shop

if __name__ == "__main__":
    shop = Shop()
    with shop.app.open(sys.argv[1]) as space:
        print(serve_ingress(space).url, flush=True)
        threading.Event().wait()
