#include "sandbox/host_folders.h"

#include <errno.h>
#include <string.h>
#include "base/text.h"

static const char *const names[] =
    {[ATOLL_FOLDER_COW] = "cow", [ATOLL_FOLDER_READ] = "ro", [ATOLL_FOLDER_WRITE] = "rw"};

const char *atoll_folder_access_name(enum atoll_folder_access access)
{
    return names[access];
}

enum atoll_folder_access atoll_folder_access_of(const struct atoll_mount *mount)
{
    return mount->cow         ? ATOLL_FOLDER_COW
           : mount->read_only ? ATOLL_FOLDER_READ
                              : ATOLL_FOLDER_WRITE;
}

enum atoll_folder_access atoll_folder_access_parse(const char *name, size_t len)
{
    for (size_t i = ATOLL_FOLDER_COW; i < ATOLL_ARRAY_LEN(names); i++)
        if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0)
            return (enum atoll_folder_access)i;
    return 0;
}

bool atoll_folder_is_kernel(const char *path)
{
    static const char *const tops[] = {"/proc", "/sys", "/dev"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(tops); i++)
        if (atoll_text_is_below(path, tops[i]) || atoll_text_is_below(tops[i], path))
            return true;
    return false;
}

static bool is_plain(const char *path)
{
    while (*path == '/') {
        size_t n = strcspn(++path, "/");
        if (n == 0 || (n == 1 && path[0] == '.') || (n == 2 && memcmp(path, "..", 2) == 0))
            return false;
        path += n;
        if (*path == '\0')
            return true;
    }
    return false;
}

static int refuse(struct atoll_error *err, const char *what, const char *text)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "a folder of the host %s (got \"%.100s\")", what, text);
}

static int parse_one(char *text, struct atoll_host_folder *ret, struct atoll_error *err)
{
    char *comma = strchr(text, ','), *colon;

    *ret = (struct atoll_host_folder){.access = ATOLL_FOLDER_COW};
    if (comma)
        *comma++ = '\0';
    colon = strrchr(text, ':');
    if (colon) {
        ret->access = atoll_folder_access_parse(colon + 1, strlen(colon + 1));
        if (!ret->access)
            return refuse(err, "ends with :cow, :ro or :rw", text);
        *colon = '\0';
    }
    if (!is_plain(text) || atoll_text_copy(ret->path, sizeof(ret->path), text) < 0)
        return refuse(err, "is an absolute path of up to 255 bytes without . and ..", text);
    if (atoll_folder_is_kernel(text))
        return refuse(err, "cannot be /, /proc, /sys or /dev", text);
    for (char *tenant = comma, *next; tenant; tenant = next) {
        next = strchr(tenant, ',');
        if (next)
            *next = '\0';
        if (!atoll_text_is_name(tenant))
            return refuse(err, "is followed by names of tenants", tenant);
        if (strlen(ret->tenants) + strlen(tenant) + 2 > sizeof(ret->tenants))
            return refuse(err, "has too many tenants", tenant);
        if (*ret->tenants)
            (void)strcat(ret->tenants, ",");
        (void)strcat(ret->tenants, tenant);
        next = next ? next + 1 : NULL;
    }
    return 0;
}

int atoll_host_folders_parse(const char *text, struct atoll_host_folders *ret,
                             struct atoll_error *err)
{
    ATOLL_AUTOFREE char *copy = strdup(text);
    char *rest = copy, *one;
    int r = copy ? 0 : atoll_fail_errno(err, ENOMEM, "folders of the host");

    *ret = (struct atoll_host_folders){0};
    while (r == 0 && (one = strsep(&rest, ";")) != NULL) {
        one += strspn(one, " ");
        if (!*one)
            continue;
        if (ret->count == ATOLL_HOST_FOLDERS_MAX)
            return refuse(err, "is one too many: there can be 16", one);
        r = parse_one(one, &ret->items[ret->count], err);
        ret->count += r == 0;
    }
    return r;
}

const struct atoll_host_folder *atoll_host_folders_find(const struct atoll_host_folders *folders,
                                                        const char *path)
{
    const struct atoll_host_folder *found = NULL;

    for (size_t i = 0; i < folders->count; i++)
        if (atoll_text_is_below(path, folders->items[i].path) &&
            (!found || strlen(folders->items[i].path) > strlen(found->path)))
            found = &folders->items[i];
    return found;
}

static bool is_listed(const char *list, const char *tenant)
{
    size_t n = strlen(tenant);

    for (const char *at = list; *at;) {
        size_t m = strcspn(at, ",");
        if (m == n && memcmp(at, tenant, n) == 0)
            return true;
        at += m + (at[m] == ',');
    }
    return false;
}

int atoll_host_folders_permit(const struct atoll_host_folders *folders, const char *path,
                              enum atoll_folder_access access, const char *tenant, bool is_operator,
                              struct atoll_error *err)
{
    const struct atoll_host_folder *folder = atoll_host_folders_find(folders, path);

    /* One answer for both, so that a tenant does not learn what is listed for others. */
    if (!folder || !(*folder->tenants ? is_listed(folder->tenants, tenant) : is_operator))
        return atoll_fail(
            err, ATOLL_ERR_PERMISSION_DENIED, EPERM,
            "%.200s of the host may not be mounted: the operator has not listed it, or a folder above "
            "it, for tenant %s (atolld --host-folders)",
            path, tenant);
    if (access > folder->access)
        return atoll_fail(err, ATOLL_ERR_PERMISSION_DENIED, EPERM,
                          "%.200s of the host may only be mounted with the mode %s%s", path,
                          atoll_folder_access_name(folder->access),
                          folder->access > ATOLL_FOLDER_COW ? " or cow" : "");
    return 0;
}
