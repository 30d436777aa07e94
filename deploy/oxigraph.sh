#!/bin/sh
# oxigraph.sh FOLDER HOST:PORT - serves the graph so that an acknowledged commit is on disk.
#
# `oxigraph serve` survives being killed but syncs nothing, so that a power cut would lose what it acknowledged.
# On a file system that knows the attribute S, files in the folder are written through.
set -eu

mkdir -p "$1"
if ! chattr -R +S "$1" 2>/dev/null; then
    echo "WARNING: $1 cannot be written through (chattr +S): a power cut may lose acknowledged commits" >&2
fi
exec oxigraph serve --location "$1" --bind "$2"
