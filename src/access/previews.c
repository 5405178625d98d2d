#include "access/previews.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/map.h"
#include "base/rand.h"
#include "base/text.h"
#include "store/previews.h"

struct preview {
    char key[48]; /* "8080-<sandbox>", as in the preview's host name */
    char sandbox_id[33];
    char token[ATOLL_PREVIEW_TOKEN_LEN + 1];
    uint16_t port;
    bool is_public;
    int64_t created_unix_ms;
    char address[ATOLL_PREVIEW_ADDRESS_MAX];
};

struct atoll_previews {
    struct atoll_store *store; /* borrowed, or NULL */
    struct atoll_map all;      /* by key, of struct preview, owned */
};

static void view_of(const struct preview *p, struct atoll_preview_view *ret)
{
    *ret = (struct atoll_preview_view){
        .sandbox_id = p->sandbox_id,
        .token = p->token,
        .port = p->port,
        .is_public = p->is_public,
        .created_unix_ms = p->created_unix_ms,
        .address = p->address,
    };
}

/* A sandbox id that is too long gives an empty key, which no preview has. */
static void make_key(char *out, size_t cap, const char *sandbox_id, uint16_t port)
{
    if ((size_t)snprintf(out, cap, "%u-%s", (unsigned)port, sandbox_id) >= cap)
        out[0] = '\0';
}

static struct preview *find(const struct atoll_previews *previews, const char *sandbox_id,
                            uint16_t port)
{
    char key[48];

    make_key(key, sizeof(key), sandbox_id, port);
    return atoll_map_get(&previews->all, key);
}

static int insert(struct atoll_previews *previews, const struct preview *from, struct preview **ret,
                  struct atoll_error *err)
{
    struct preview *p = malloc(sizeof(*p));
    int r = -ENOMEM;

    if (p) {
        *p = *from;
        r = atoll_map_put(&previews->all, p->key, p);
    }
    if (r < 0) {
        free(p);
        return atoll_fail_errno(err, -r, "preview");
    }
    *ret = p;
    return 0;
}

static int load(void *arg, const struct atoll_store_preview *row, struct atoll_error *err)
{
    struct preview p = {
        .port = row->port,
        .is_public = row->is_public,
        .created_unix_ms = row->created_unix_ms,
    };
    struct preview *unused;

    if (!atoll_text_is_id(row->sandbox_id) || strlen(row->token) != ATOLL_PREVIEW_TOKEN_LEN ||
        atoll_text_copy(p.sandbox_id, sizeof(p.sandbox_id), row->sandbox_id) < 0 ||
        atoll_text_copy(p.token, sizeof(p.token), row->token) < 0 ||
        atoll_text_copy(p.address, sizeof(p.address), row->address) < 0)
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EBADMSG, "the store holds a malformed preview");
    make_key(p.key, sizeof(p.key), p.sandbox_id, p.port);
    return insert(arg, &p, &unused, err);
}

int atoll_previews_new(struct atoll_store *store, struct atoll_previews **ret,
                       struct atoll_error *err)
{
    struct atoll_previews *previews = calloc(1, sizeof(*previews));
    int r = 0;

    if (!previews)
        return atoll_fail_errno(err, ENOMEM, "previews");
    previews->store = store;
    atoll_map_init(&previews->all);
    if (store)
        r = atoll_store_each_preview(store, load, previews, err);
    if (r < 0) {
        (void)atoll_previews_free(previews);
        return r;
    }
    *ret = previews;
    return 0;
}

struct atoll_previews *atoll_previews_free(struct atoll_previews *previews)
{
    struct preview *p;

    if (!previews)
        return NULL;
    for (size_t pos = 0; (p = atoll_map_next(&previews->all, &pos));)
        free(p);
    atoll_map_done(&previews->all);
    free(previews);
    return NULL;
}

static int save(struct atoll_previews *previews, const struct preview *p, struct atoll_error *err)
{
    const struct atoll_store_preview row = {
        .sandbox_id = p->sandbox_id,
        .token = p->token,
        .port = p->port,
        .is_public = p->is_public,
        .created_unix_ms = p->created_unix_ms,
        .address = p->address,
    };

    return previews->store ? atoll_store_put_preview(previews->store, &row, err) : 0;
}

static size_t count(const struct atoll_previews *previews, const char *sandbox_id)
{
    struct atoll_preview_view view;
    size_t n = 0;

    for (size_t pos = 0; atoll_previews_next(previews, sandbox_id, &pos, &view);)
        n++;
    return n;
}

int atoll_previews_add(struct atoll_previews *previews, const char *sandbox_id, uint16_t port,
                       bool is_public, struct atoll_preview_view *ret, struct atoll_error *err)
{
    struct preview *old = find(previews, sandbox_id, port), p = {.port = port};
    int r;

    if (port == 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "a port is a number of 1 to 65535");
    if (!old && count(previews, sandbox_id) >= ATOLL_PREVIEWS_PER_SANDBOX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOBUFS,
                          "a sandbox has at most %d previews", ATOLL_PREVIEWS_PER_SANDBOX);
    if (old) {
        p = *old;
    } else {
        if (atoll_text_copy(p.sandbox_id, sizeof(p.sandbox_id), sandbox_id) < 0)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "not a sandbox id");
        make_key(p.key, sizeof(p.key), sandbox_id, port);
        atoll_rand_id(p.token, ATOLL_PREVIEW_TOKEN_LEN);
        p.created_unix_ms = atoll_clock_unix_ms();
    }
    p.is_public = is_public;
    r = save(previews, &p, err);
    if (r < 0)
        return r;
    if (old)
        old->is_public = is_public;
    else
        r = insert(previews, &p, &old, err);
    if (r == 0)
        view_of(old, ret);
    return r;
}

static int fail_absent(struct atoll_error *err, const char *sandbox_id, uint16_t port)
{
    return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "port %u of sandbox %s has no preview",
                      (unsigned)port, sandbox_id);
}

int atoll_previews_publish(struct atoll_previews *previews, const char *sandbox_id, uint16_t port,
                           const char *address, struct atoll_preview_view *ret,
                           struct atoll_error *err)
{
    struct preview *p = find(previews, sandbox_id, port), changed;
    int r;

    if (!p)
        return fail_absent(err, sandbox_id, port);
    changed = *p;
    if (atoll_text_copy(changed.address, sizeof(changed.address), address) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "the address is too long");
    r = save(previews, &changed, err);
    if (r < 0)
        return r;
    *p = changed;
    view_of(p, ret);
    return 0;
}

int atoll_previews_remove(struct atoll_previews *previews, const char *sandbox_id, uint16_t port,
                          struct atoll_error *err)
{
    struct preview *p = find(previews, sandbox_id, port);
    int r = 0;

    if (!p)
        return fail_absent(err, sandbox_id, port);
    if (previews->store)
        r = atoll_store_drop_preview(previews->store, sandbox_id, port, err);
    if (r < 0)
        return r;
    (void)atoll_map_remove(&previews->all, p->key);
    free(p);
    return 0;
}

void atoll_previews_forget(struct atoll_previews *previews, const char *sandbox_id)
{
    struct preview *p;

    for (size_t pos = 0; (p = atoll_map_next(&previews->all, &pos));) {
        if (strcmp(p->sandbox_id, sandbox_id) != 0)
            continue;
        /* If the row cannot be dropped it is harmless: sandbox ids are never reused. */
        if (previews->store)
            (void)!atoll_store_drop_preview(previews->store, p->sandbox_id, p->port, NULL);
        (void)atoll_map_remove(&previews->all, p->key);
        free(p);
    }
}

bool atoll_previews_find(const struct atoll_previews *previews, const char *sandbox_id,
                         uint16_t port, struct atoll_preview_view *ret)
{
    const struct preview *p = find(previews, sandbox_id, port);

    if (p)
        view_of(p, ret);
    return p != NULL;
}

bool atoll_previews_next(const struct atoll_previews *previews, const char *sandbox_id, size_t *pos,
                         struct atoll_preview_view *ret)
{
    const struct preview *p;

    while ((p = atoll_map_next(&previews->all, pos)))
        if (!sandbox_id || strcmp(p->sandbox_id, sandbox_id) == 0) {
            view_of(p, ret);
            return true;
        }
    return false;
}
