#pragma once
#include "base/error.h"

/*
 * The `host` template: a small root whose /usr is the host's. Creates below the state directory:
 *   template/host   directories, links and a generated /etc (the host's /usr is stacked on it)
 *   template/usr    added on top of the host's /usr: bin/sudo, and bin/python if the host has only
 *                   python3, the certificates that a sandbox trusts, and programs for layers
 *                   (sandbox/programs.h)
 *   template/tools  added on top of every other template: usr/bin/sudo, the same certificates, and those
 *                   of the programs that need no libraries
 *   template/mounts the mount points of a step of a build, on top of its stack; template/empty
 * From the host's /etc only a fixed list of harmless, world-readable paths is copied, without
 * accounts, keys or settings of the host. The CA of atoll-egress is added to its trust store, if it
 * exists (sandbox/trust.h).
 * Blocking: copies some hundred small files the first time, and again when the host's libraries or
 * this program changed; otherwise one stat. Call it while no sandbox is being created. Running
 * sandboxes keep the template they were created from (ATOLL_TEMPLATE_OLD).
 */
int atoll_host_template_make(const char *state_dir, const char *program_dir,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
