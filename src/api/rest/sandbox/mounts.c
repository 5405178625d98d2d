/*
 * "volumes" and "registry" in a request for a sandbox.
 */
#include <errno.h>
#include <string.h>
#include "api/rest/requests.h"
#include "base/text.h"

struct volume {
    const char *name, *host_path, *path;
    bool read_only;
};

#define AT(member) offsetof(struct volume, member)
static const struct atoll_field volume_fields[] = {
    {"name", ATOLL_FIELD_STRING, AT(name), 1, 64, NULL, 0},
    {"hostPath", ATOLL_FIELD_STRING, AT(host_path), 1, 255, NULL, 0},
    {"path", ATOLL_FIELD_STRING, AT(path), 1, 255, NULL, 0},
    {"readOnly", ATOLL_FIELD_BOOL, AT(read_only), 0, 0, NULL, 0},
    {0},
};
#undef AT

/* An absolute path without empty, "." or ".." segments. */
static bool is_plain_path(const char *path)
{
    if (path[0] != '/' || !path[1])
        return false;
    for (const char *at = path; *at;) {
        size_t n = strcspn(++at, "/");
        if (n == 0 || (n == 1 && at[0] == '.') || (n == 2 && at[0] == '.' && at[1] == '.'))
            return false;
        at += n;
    }
    return true;
}

static bool is_or_below(const char *path, const char *top)
{
    size_t n = strlen(top);
    return strncmp(path, top, n) == 0 && (path[n] == '/' || !path[n]);
}

/* Paths used by the kernel's file systems and by Atoll. */
static bool is_taken(const char *path)
{
    static const char *const tops[] = {"/proc", "/sys", "/dev", "/.atoll"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(tops); i++)
        if (is_or_below(path, tops[i]))
            return true;
    return false;
}

static int check_one(const struct volume *v, const struct atoll_mount *before, size_t count,
                     struct atoll_error *err)
{
    if (!v->name == !v->host_path)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "volumes: each needs a name or a hostPath, and not both");
    if (v->name && !atoll_text_is_name(v->name))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "volumes: \"%.64s\" is not a volume name: letters, digits, . _ - only",
                          v->name);
    if (v->host_path && !is_plain_path(v->host_path))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "volumes: hostPath must be an absolute path without . and .. (got "
                          "\"%.100s\")",
                          v->host_path);
    if (!v->path || !is_plain_path(v->path) || is_taken(v->path))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "volumes: path must be an absolute path in the sandbox without . and .., "
                          "and not in /proc, /sys or /dev (got \"%.100s\")",
                          v->path ? v->path : "");
    for (size_t i = 0; i < count; i++)
        if (is_or_below(v->path, before[i].path) || is_or_below(before[i].path, v->path))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "volumes: %.100s and %.100s overlap", before[i].path, v->path);
    return 0;
}

static int take_volumes(const json_t *array, struct atoll_body *body, struct atoll_options *create,
                        struct atoll_error *err)
{
    struct atoll_mount *mounts;
    size_t count = json_array_size(array);

    if (!json_is_array(array) || count > ATOLL_MOUNTS_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "volumes must be an array of at most %d objects", ATOLL_MOUNTS_MAX);
    mounts = calloc(ATOLL_MOUNTS_MAX, sizeof(*mounts));
    if (!mounts)
        abort();
    atoll_body_take(body, mounts);
    for (size_t i = 0; i < count; i++) {
        const json_t *object = json_array_get(array, i);
        struct volume v = {0};
        struct atoll_field_set set = {volume_fields, &v};
        int r = json_is_object(object)
                    ? atoll_fields_decode(body, object, "volumes", &set, 1, err)
                    : atoll_fields_refuse(err, "", "volumes", object, "an array of objects");
        if (r == 0)
            r = check_one(&v, mounts, i, err);
        if (r < 0)
            return r;
        mounts[i].read_only = v.read_only;
        (void)!atoll_text_copy(mounts[i].volume, sizeof(mounts[i].volume), v.name ? v.name : "");
        (void)!atoll_text_copy(mounts[i].source, sizeof(mounts[i].source),
                               v.host_path ? v.host_path : "");
        (void)!atoll_text_copy(mounts[i].path, sizeof(mounts[i].path), v.path);
    }
    create->mounts = mounts;
    create->mount_count = count;
    return 0;
}

int atoll_rest_login_check(const struct atoll_rest_login *given, struct atoll_body *body,
                           const struct atoll_registry_login **ret, struct atoll_error *err)
{
    struct atoll_registry_login *login;

    if (!given->username || !given->password)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "registry needs a username and a password");
    login = calloc(1, sizeof(*login));
    if (!login)
        abort();
    atoll_body_take(body, login);
    (void)!atoll_text_copy(login->username, sizeof(login->username), given->username);
    (void)!atoll_text_copy(login->password, sizeof(login->password), given->password);
    *ret = login;
    return 0;
}

static int take_login(const struct atoll_rest_sandbox *s, struct atoll_body *body,
                      struct atoll_options *create, struct atoll_error *err)
{
    if (!s->options.image)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "registry is for pulling an image: give image, too");
    return atoll_rest_login_check(&s->registry, body, &create->login, err);
}

int atoll_rest_mounts_check(const struct atoll_rest_sandbox *s, struct atoll_body *body,
                            struct atoll_options *create, struct atoll_error *err)
{
    int r = s->volumes ? take_volumes(s->volumes, body, create, err) : 0;

    return r < 0 || !s->has_registry ? r : take_login(s, body, create, err);
}
