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
    bool volumes_are_given;
    uint32_t volumes; /* that a tenant may have; not given: ATOLL_NATIVE_VOLUMES for free_tenant */
    /* Limit of a volume that a tenant's sandbox makes; 0: none. That of free_tenant has none. */
    uint64_t volume_bytes;
    const char *free_tenant; /* NULL: none */
    enum atoll_disks disks;
    const char *host_folders; /* sandbox/host_folders.h; NULL: none */
};
#define ATOLL_NATIVE_VOLUMES 256
#define ATOLL_NATIVE_VOLUME_BYTES ((uint64_t)1 << 30)

int atoll_native_open(struct atoll_loop *loop, const struct atoll_native_config *config,
                      struct atoll_provider **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
