#pragma once
#include "loop/loop.h"
#include "provider/provider.h"

/*
 * The native provider: namespaces, cgroups and overlays of this host, made by atoll-spawn.
 * Blocking: opening takes some milliseconds (it starts atoll-spawn and prepares the templates);
 * later calls do not block.
 */
struct atoll_native_config {
    const char *state_dir;
    const char *program_dir; /* directory of atoll-spawn and atoll-sudo */
};

int atoll_native_open(struct atoll_loop *loop, const struct atoll_native_config *config,
                      struct atoll_provider **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
