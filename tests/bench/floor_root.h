#pragma once
#include "base/error.h"

/*
 * The root file system of the floor benchmark: the mounts a sandbox of the `host` template gets,
 * made with bare system calls. `template_dir` is an empty directory to begin with.
 */

/* Makes skel/ (an almost empty root), usr/ (the empty top of the /usr overlay) and disk/ (the mount
 * point) below template_dir. */
int atoll_floor_root_prepare(const char *template_dir, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_floor_root_remove(const char *template_dir, struct atoll_error *err) ATOLL_MUST_CHECK;

/* In the child, in its own mount namespace: builds everything and pivots into it. `userns_fd` maps
 * 64 Ki ids from `id_base`. */
int atoll_floor_root_enter(const char *template_dir, int userns_fd, unsigned id_base,
                           struct atoll_error *err) ATOLL_MUST_CHECK;

/* From outside: FAILED_PRECONDITION unless process `pid` has every mount it should. */
int atoll_floor_root_verify(pid_t pid, struct atoll_error *err) ATOLL_MUST_CHECK;
