"""A process to kill: commits 1, 2, 3... to a database and prints each number once its commit is acknowledged.

Usage: acknowledging_writer.py PATH SYNCHRONOUS
"""

import sys
from itertools import count

import apsw

from headwater.testing.powerloss import register


def main(path: str, synchronous: str) -> None:
    connection = apsw.Connection(path, vfs=register())
    for pragma in ("locking_mode=exclusive", "journal_mode=wal", f"synchronous={synchronous}"):
        connection.execute(f"pragma {pragma}").fetchall()
    connection.execute("create table if not exists commits (number integer primary key, body blob)")
    last = connection.execute("select coalesce(max(number), 0) from commits").get
    for number in count(last + 1):
        connection.execute("insert into commits values (?, randomblob(900))", (number,))
        print(number, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
