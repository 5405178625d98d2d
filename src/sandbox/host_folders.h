#pragma once
#include "base/error.h"
#include "proto/plan.h"
#include "sandbox/spec.h"

/*
 * Which folders of the host sandboxes may mount, as the operator lists them: "PATH[:cow|:ro|:rw][,TENANT…]", several
 * separated by ';'. Pure functions. See docs/adr/0049-host-folders.md.
 */

struct atoll_host_folder {
    char path[256]; /* absolute, without "." and ".." */
    enum atoll_folder_access access;
    char tenants[512]; /* separated by commas; "": the operator's own tenant */
};

struct atoll_host_folders {
    struct atoll_host_folder items[ATOLL_HOST_FOLDERS_MAX];
    size_t count;
};

/* "" is an empty list. INVALID_ARGUMENT. */
int atoll_host_folders_parse(const char *text, struct atoll_host_folders *ret,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* "cow", "ro" or "rw". */
const char *atoll_folder_access_name(enum atoll_folder_access access);
/* What the mount asks for. */
enum atoll_folder_access atoll_folder_access_of(const struct atoll_mount *mount);
/* 0: not one of the three. */
enum atoll_folder_access atoll_folder_access_parse(const char *name, size_t len);
/* Whether the folder, or one that contains it or is in it, must never be shared: the root, /proc, /sys, /dev. */
bool atoll_folder_is_kernel(const char *path);
/* The listed folder that contains `path`; of several the deepest. NULL: none. */
const struct atoll_host_folder *atoll_host_folders_find(const struct atoll_host_folders *folders,
                                                        const char *path);
/* Whether the tenant may mount `path` so. The operator's tenant may mount what names no tenants. PERMISSION_DENIED
 * says what the operator can do. */
int atoll_host_folders_permit(const struct atoll_host_folders *folders, const char *path,
                              enum atoll_folder_access access, const char *tenant, bool is_operator,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
