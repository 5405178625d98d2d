#pragma once
#include <sys/stat.h>
#include "base/error.h"
#include "proto/plan.h"

/*
 * The folders of the host that plans may mount (ATOLL_PLAN_FOLDER). The list is fixed when the first keeper starts, as
 * arguments of the program, and so is what it means: the keeper holds a descriptor of each folder. A daemon that was
 * taken over cannot add to it, and a folder that is replaced later is not followed. See docs/adr/0049-host-folders.md.
 */
struct atoll_spawn_folder {
    char path[256]; /* "": it did not exist at the start */
    enum atoll_folder_access most;
    dev_t dev;
    ino_t ino;
    int fd; /* until atoll_folders_show() */
};

struct atoll_spawn_folders {
    struct atoll_spawn_folder items[ATOLL_HOST_FOLDERS_MAX];
    size_t count;
    /* The state directory and the directories above it, which are never mounted. */
    struct {
        dev_t dev;
        ino_t ino;
    } state[32];
    size_t state_depth;
};

/* Reads what the keeper passed on: descriptors from ATOLL_KEEPER_FOLDERS_FD on, and the list. As root they become
 * detached mounts; the caller is in the mount namespace of the host. */
int atoll_folders_open(struct atoll_spawn_folders *folders, int state_fd, bool root,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
/* Attaches the mounts in the own root that is being made, at folders/N. */
int atoll_folders_show(struct atoll_spawn_folders *folders, int root_fd,
                       struct atoll_error *err) ATOLL_MUST_CHECK;

/* In the keeper: from arguments "ACCESS:PATH", ACCESS as in enum atoll_folder_access. Writes the list to a memory
 * file, *ret_list, and opens the folders; one that does not exist has -1. */
int atoll_folders_keep(char *const *arguments, int count, int *ret_list, int *ret_fds,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
