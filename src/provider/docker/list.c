/*
 * Finds our containers by their label. Sandboxes are recognized by their names; other containers
 * that a killed daemon left are removed on the first call.
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include "provider/docker/docker_internal.h"

static int list_ours(struct atoll_docker *d, const struct atoll_sync_call *call, json_t **ret,
                     struct atoll_error *err)
{
    int r = atoll_docker_http_askf(
        d->http, call, ret, err, "GET",
        "/containers/json?all=1&filters=%%7B%%22label%%22%%3A%%5B%%22" ATOLL_DOCKER_LABEL
        "%%3D%s%%22%%5D%%7D",
        d->daemon_id);

    if (r < 0)
        return r;
    if (!json_is_array(*ret))
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EPROTO, "Docker's answer is not a list");
    return 0;
}

/* Whether the list has the container `name` of a sandbox. */
static bool is_sandbox(const json_t *list, const char *name)
{
    const json_t *entry;
    size_t i;

    json_array_foreach(list, i, entry)
    {
        char id[ATOLL_ID_LEN + 1];
        if (atoll_docker_entry_id(entry, id) &&
            strcmp(id, name + sizeof(ATOLL_DOCKER_NAME) - 1) == 0)
            return true;
    }
    return false;
}

/* Removes directories without a container, and notes of private pulls that did not end. */
static void remove_files(struct atoll_docker *d, const struct atoll_sync_call *call,
                         const json_t *list)
{
    DIR *dir = opendir(d->state_dir);
    struct atoll_error unused;

    for (struct dirent *e; dir && (e = readdir(dir));)
        if (strncmp(e->d_name, ATOLL_DOCKER_NAME, sizeof(ATOLL_DOCKER_NAME) - 1) == 0 &&
            strlen(e->d_name) < 64 && !is_sandbox(list, e->d_name))
            (void)!atoll_docker_container_remove(d, call, e->d_name, e->d_name, &unused);
        else if (strncmp(e->d_name, ATOLL_DOCKER_PULL_NOTE, sizeof(ATOLL_DOCKER_PULL_NOTE) - 1) ==
                 0)
            atoll_docker_forget_pull(d, call, e->d_name);
    if (dir)
        (void)closedir(dir);
}

static int remove_orphans(struct atoll_docker *d, const struct atoll_sync_call *call,
                          struct atoll_error *err)
{
    ATOLL_DOCKER_AUTOJSON json_t *list = NULL;
    struct atoll_error unused;
    const json_t *entry;
    size_t i;
    int r = list_ours(d, call, &list, err);

    if (r < 0)
        return r;
    json_array_foreach(list, i, entry)
    {
        const char *handle = json_string_value(json_object_get(entry, "Id"));
        char id[ATOLL_ID_LEN + 1];
        if (handle && !atoll_docker_entry_id(entry, id))
            (void)!atoll_docker_container_remove(d, call, handle, "none", &unused);
    }
    remove_files(d, call, list);
    return 0;
}

int atoll_docker_clean(struct atoll_docker *d, const struct atoll_sync_call *call,
                       struct atoll_error *err)
{
    struct atoll_sync_call bounded = *call;
    int r = atoll_docker_lock(&d->cleaning, call, err);

    if (r < 0)
        return r;
    bounded.deadline_ms = ATOLL_MIN(call->deadline_ms, atoll_clock_ms() + ATOLL_DOCKER_CLEAN_UP_MS);
    if (!d->cleaned)
        r = remove_orphans(d, &bounded, err);
    d->cleaned = d->cleaned || r == 0;
    (void)pthread_mutex_unlock(&d->cleaning);
    return r;
}

/* Removes a pool container that is in no pool: the engine completed a create that the pool had
 * given up. It is removed by name, since a container taken meanwhile has another. */
static void remove_late(struct atoll_docker *d, const struct atoll_sync_call *call,
                        const json_t *entry)
{
    const char *name = json_string_value(json_array_get(json_object_get(entry, "Names"), 0));
    struct atoll_error unused;

    if (name && strncmp(name, "/" ATOLL_DOCKER_POOL, sizeof(ATOLL_DOCKER_POOL)) == 0 &&
        strspn(name + 1, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(name + 1) &&
        !atoll_docker_pool_may_have(d->pool, name + 1))
        (void)!atoll_docker_container_remove(d, call, name + 1, name + 1, &unused);
}

int atoll_docker_list(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                      void (*each)(void *arg, const char *id, const char *handle, bool alive),
                      void *arg, struct atoll_error *err)
{
    struct atoll_docker *d = atoll_docker_of(p);
    ATOLL_DOCKER_AUTOJSON json_t *list = NULL;
    const json_t *entry;
    size_t i;
    int r = atoll_docker_clean(d, call, err);

    if (r == 0)
        r = list_ours(d, call, &list, err);
    if (r < 0)
        return r;
    json_array_foreach(list, i, entry)
    {
        const char *handle = json_string_value(json_object_get(entry, "Id"));
        const char *state = json_string_value(json_object_get(entry, "State"));
        char id[ATOLL_ID_LEN + 1];
        if (handle && state && atoll_docker_entry_id(entry, id))
            each(arg, id, handle, strcmp(state, "running") == 0 || strcmp(state, "paused") == 0);
        else
            remove_late(d, call, entry);
    }
    return 0;
}
