#!/bin/sh
# `make test` tries the vault behind a real PgBouncer. Here it is made sure that there is one: at once when it is
# installed, by apt for root on Debian, and with a word about what is missing everywhere else. The tests that need it
# fail by name then; none is skipped.
set -u
PATH="$PATH:/usr/sbin:/usr/local/sbin"

missing() {
    echo "pgbouncer is missing ($1): the tests of tests/apps/vault/ops/test_pgbouncer.py will fail." >&2
    echo "Install the package pgbouncer, or leave them out: make test ARGS='--deselect tests/apps/vault/ops/test_pgbouncer.py'" >&2
    exit 0
}

install() {
    DEBIAN_FRONTEND=noninteractive timeout 300 apt-get install --yes --quiet --no-install-recommends pgbouncer \
        >build/pgbouncer.log 2>&1 </dev/null
}

command -v pgbouncer >/dev/null 2>&1 && exit 0
command -v apt-get >/dev/null 2>&1 || missing "this is no Debian"
[ "$(id -u)" = 0 ] || missing "only root can install it"
echo "Installing pgbouncer, for the tests behind a real pooler ..."
mkdir -p build
install || { timeout 300 apt-get update --quiet >/dev/null 2>&1 </dev/null && install; } \
    || missing "apt could not install it, see build/pgbouncer.log"
# The package starts a service of its own where it may; the tests start theirs, on a free port.
if command -v systemctl >/dev/null 2>&1; then systemctl disable --now pgbouncer >/dev/null 2>&1; fi
exit 0
