/*
 * "volumes" and "registry" in a request for a sandbox.
 */
#include <errno.h>
#include <string.h>
#include "api/rest/requests.h"
#include "base/text.h"

struct volume {
    const char *name, *host_path, *path, *mode;
    bool read_only;
};

#define AT(member) offsetof(struct volume, member)
static const struct atoll_field volume_fields[] = {
    {"name", ATOLL_FIELD_STRING, AT(name), 1, 64, NULL, 0},
    {"hostPath", ATOLL_FIELD_STRING, AT(host_path), 1, 255, NULL, 0},
    {"path", ATOLL_FIELD_STRING, AT(path), 1, 255, NULL, 0},
    {"readOnly", ATOLL_FIELD_BOOL, AT(read_only), 0, 0, NULL, 0},
    {"mode", ATOLL_FIELD_STRING, AT(mode), 2, 3, NULL, 0},
    {0},
};
#undef AT

/* The texts are shorter than the members: the table of fields has the maximum. */
static struct atoll_mount mount_of(const struct volume *v)
{
    struct atoll_mount m = {.read_only = v->read_only};

    (void)!atoll_text_copy(m.volume, sizeof(m.volume), v->name ? v->name : "");
    (void)!atoll_text_copy(m.source, sizeof(m.source), v->host_path ? v->host_path : "");
    (void)!atoll_text_copy(m.path, sizeof(m.path), v->path ? v->path : "");
    return m;
}

/* "mode" says more than "readOnly", which is older. */
static int take_mode(const struct volume *v, struct atoll_mount *m, struct atoll_error *err)
{
    if (!v->mode)
        return 0;
    if (v->read_only && strcmp(v->mode, "ro") != 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "volumes: readOnly is the mode ro; give one of the two");
    return atoll_mount_set_mode(m, v->mode, err);
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
        mounts[i] = mount_of(&v);
        if (r == 0)
            r = take_mode(&v, &mounts[i], err);
        if (r == 0)
            r = atoll_mount_check(&mounts[i], mounts, i, err);
        if (r < 0)
            return r;
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
