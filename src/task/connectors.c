#include "task/connectors.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "engine/json_memory.h"
#include "engine/network/secrets.h"
#include "network/placeholder.h"
#include "store/connectors.h"
#include "store/secrets.h"
#include "task/oauth.h"

#define ARGS_MAX 64
#define NAMES_MAX 64 /* of variables and headers */

bool atoll_connector_is_name(const char *text)
{
    size_t n =
        text ? strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") : 0;

    return n >= 1 && n <= 64 && !text[n];
}

/* --- the check of a definition --- */

static int refuse(struct atoll_error *err, const char *where, const char *member, const char *what)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%.100s%s%.64s must be %s", where,
                      *member ? "." : "", member, what);
}

/* A text without control characters, except for those in `also`. */
static bool is_clean(const json_t *value, const char *also)
{
    const char *text = json_string_value(value);

    for (; text && *text; text++)
        if (((unsigned char)*text < ' ' || *text == 0x7f) && !strchr(also, *text))
            return false;
    return text != NULL;
}

static bool is_line(const json_t *value)
{
    return is_clean(value, "");
}

static bool is_filled_line(const json_t *value)
{
    return is_line(value) && *json_string_value(value);
}

/* Every ${secret. has the name of a secret behind it. */
static bool names_secrets(const char *text)
{
    char name[ATOLL_SECRET_NAME_MAX + 1];
    const char *end;

    while ((text = atoll_placeholder_find(text, &end, name))) {
        if (!*name)
            return false;
        text = end;
    }
    return true;
}

static int check_command(const json_t *value, const char *where, const char *name,
                         struct atoll_error *err)
{
    return is_filled_line(value) ? 0 : refuse(err, where, name, "a program, a text in one line");
}

static int check_args(const json_t *value, const char *where, const char *name,
                      struct atoll_error *err)
{
    bool good = json_is_array(value) && json_array_size(value) <= ARGS_MAX;

    for (size_t i = 0; good && i < json_array_size(value); i++)
        good = is_clean(json_array_get(value, i), "\n\t");
    return good ? 0
                : refuse(err, where, name, "a list of at most 64 texts without control characters");
}

static int check_map(const json_t *value, const char *where, const char *name,
                     struct atoll_error *err)
{
    bool good = json_is_object(value) && json_object_size(value) <= NAMES_MAX;
    const char *key;
    json_t *text;

    json_object_foreach((json_t *)(uintptr_t)value, key, text)
    {
        good = good && *key && !strpbrk(key, "=: \"'\\\r\n\t") && is_line(text) &&
               names_secrets(json_string_value(text));
    }
    return good ? 0
                : refuse(err, where, name,
                         "an object of at most 64 texts in one line; ${secret.NAME} in a text must "
                         "have the name of a secret");
}

static int check_url(const json_t *value, const char *where, const char *name,
                     struct atoll_error *err)
{
    const char *url = json_string_value(value);
    const char *rest = !url                               ? NULL
                       : strncmp(url, "https://", 8) == 0 ? url + 8
                       : strncmp(url, "http://", 7) == 0  ? url + 7
                                                          : NULL;
    size_t host = rest ? strcspn(rest, "/?#") : 0;

    if (host == 0 || !is_line(value) || strlen(url) > 2000 || strpbrk(url, " \"<>\\^`{|}"))
        return refuse(err, where, name, "an http or https URL");
    if (memchr(rest, '@', host))
        return refuse(err, where, name, "a URL without a password: give it in headers");
    return 0;
}

static int check_type(const json_t *value, const char *where, const char *name,
                      struct atoll_error *err)
{
    const char *type = json_string_value(value);

    return type && (strcmp(type, "stdio") == 0 || strcmp(type, "http") == 0 ||
                    strcmp(type, "sse") == 0)
               ? 0
               : refuse(err, where, name, "\"stdio\", \"http\" or \"sse\"");
}

/* With the other members: see atoll_oauth_check(). */
static int check_oauth(const json_t *value, const char *where, const char *name,
                       struct atoll_error *err)
{
    return json_is_object(value) ? 0 : refuse(err, where, name, "an object");
}

#define LOCAL 1
#define REMOTE 2
static const struct {
    const char *name;
    int kinds;
    int (*check)(const json_t *value, const char *where, const char *name, struct atoll_error *err);
} members[] = {
    {"command", LOCAL, check_command},
    {"args", LOCAL, check_args},
    {"env", LOCAL, check_map},
    {"cwd", LOCAL, check_command},
    {"url", REMOTE, check_url},
    {"headers", REMOTE, check_map},
    {"type", LOCAL | REMOTE, check_type},
    {"oauth", REMOTE, check_oauth},
};

static int check_member(const char *name, const json_t *value, int kind, const char *where,
                        struct atoll_error *err)
{
    size_t i = 0;

    while (i < ATOLL_ARRAY_LEN(members) && strcmp(members[i].name, name) != 0)
        i++;
    if (i == ATOLL_ARRAY_LEN(members))
        return atoll_fail(
            err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
            "there is no member %.100s.%.64s; known are command, args, env, cwd, url, "
            "headers, type and oauth",
            where, name);
    if (!(members[i].kinds & kind))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "%.100s.%.64s does not go together with \"%s\"", where, name,
                          kind == LOCAL ? "command" : "url");
    return members[i].check(value, where, name, err);
}

int atoll_connector_check(const json_t *definition, const char *where, struct atoll_error *err)
{
    const json_t *command = json_object_get(definition, "command");
    const char *type = json_string_value(json_object_get(definition, "type"));
    int kind = command ? LOCAL : REMOTE;
    const char *name;
    json_t *value;

    if (!json_is_object(definition) || !command == !json_object_get(definition, "url"))
        return refuse(err, where, "",
                      "an object with either \"command\", which is started in the sandbox, or "
                      "\"url\"");
    json_object_foreach((json_t *)(uintptr_t)definition, name, value)
    {
        if (check_member(name, value, kind, where, err) < 0)
            return -EINVAL;
    }
    if (type && (kind == LOCAL) != (strcmp(type, "stdio") == 0))
        return refuse(err, where, "type", "\"stdio\" for a command, \"http\" or \"sse\" for a URL");
    if (json_object_get(definition, "oauth") && atoll_oauth_check(definition, where, err) < 0)
        return -EINVAL;
    if (json_dumpb(definition, NULL, 0, JSON_COMPACT) > ATOLL_CONNECTOR_BYTES_MAX)
        return refuse(err, where, "", "at most 64 KiB");
    return 0;
}

/* --- secrets --- */

struct filler {
    atoll_connector_get_fn *get;
    void *arg;
    struct atoll_buf value; /* of the secret that was asked for last */
    char missing[ATOLL_SECRET_NAME_MAX + 1];
};

static const char *get_secret(void *arg, const char *name)
{
    struct filler *f = arg;

    atoll_buf_wipe(&f->value);
    atoll_buf_init_erasing(&f->value, ATOLL_SECRET_VALUE_MAX + 1);
    if (f->get(f->arg, name, &f->value))
        return atoll_buf_str(&f->value);
    (void)snprintf(f->missing, sizeof(f->missing), "%s", name);
    return NULL;
}

static int fill_text(struct filler *f, json_t *map, const char *name, const json_t *value)
{
    struct atoll_buf out;
    int r;

    if (!json_is_string(value))
        return -EINVAL;
    atoll_buf_init_erasing(&out, 2 * ATOLL_SECRET_VALUE_MAX);
    r = atoll_placeholder_fill(json_string_value(value), get_secret, f, &out);
    if (r == 0 && json_object_set_new(map, name, json_string(atoll_buf_str(&out))) < 0)
        r = -EINVAL;
    atoll_buf_done(&out);
    return r;
}

int atoll_connector_fill(const char *server, json_t *map, atoll_connector_get_fn *get, void *arg,
                         struct atoll_error *err)
{
    struct filler f = {.get = get, .arg = arg};
    const char *name;
    json_t *value;
    int r = 0;

    atoll_buf_init_erasing(&f.value, 1);
    json_object_foreach(map, name, value)
    {
        if (r == 0)
            r = fill_text(&f, map, name, value);
    }
    atoll_buf_wipe(&f.value);
    if (r == -ENOENT)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENOKEY,
                          "the MCP server %.64s needs the secret %s: store it with `atoll secret "
                          "create %s`",
                          server, f.missing, f.missing);
    return r < 0 ? atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EINVAL,
                              "a value of the MCP server %.64s is too long, or not a text", server)
                 : 0;
}

struct vault {
    struct atoll_store *store;
    const char *tenant;
};

static bool get_stored(void *arg, const char *name, struct atoll_buf *out)
{
    const struct vault *v = arg;
    struct atoll_error error;

    return atoll_store_secret_value(v->store, v->tenant, name, out, &error) == 0;
}

int atoll_connectors_fill(struct atoll_store *store, const char *tenant, const char *server,
                          json_t *map, struct atoll_error *err)
{
    struct vault v = {store, tenant};

    return atoll_connector_fill(server, map, get_stored, &v, err);
}

/* --- the store --- */

struct walk {
    void (*fn)(void *arg, const struct atoll_connector_view *view);
    void *arg;
    json_t *definition; /* of the last one; owned */
    int64_t created_unix_ms, updated_unix_ms;
    size_t count;
};

static int take_row(void *arg, const struct atoll_store_connector *row,
                    struct atoll_error *err ATOLL_UNUSED)
{
    struct walk *w = arg;
    json_t *definition = atoll_json_load_own(row->definition);

    w->count++;
    w->created_unix_ms = row->created_unix_ms;
    w->updated_unix_ms = row->updated_unix_ms;
    if (w->fn)
        w->fn(w->arg, &(struct atoll_connector_view){row->name, definition, row->created_unix_ms,
                                                     row->updated_unix_ms});
    json_decref(w->definition);
    w->definition = definition;
    return 0;
}

int atoll_connectors_each(struct atoll_store *store, const char *tenant,
                          void (*fn)(void *arg, const struct atoll_connector_view *view), void *arg,
                          struct atoll_error *err)
{
    struct walk w = {.fn = fn, .arg = arg};
    int r = atoll_store_each_connector(store, tenant, NULL, take_row, &w, err);

    json_decref(w.definition);
    return r;
}

/* 1: there is one; 0: there is none. *ret_definition: owned by the caller; NULL: its key is lost. */
static int look(struct atoll_store *store, const char *tenant, const char *name, struct walk *w,
                struct atoll_error *err)
{
    int r = atoll_store_each_connector(store, tenant, name, take_row, w, err);

    return r < 0 ? r : w->count > 0;
}

int atoll_connectors_find(struct atoll_store *store, const char *tenant, const char *name,
                          struct atoll_connector_view *ret, json_t **ret_definition,
                          struct atoll_error *err)
{
    struct walk w = {0};
    int r = atoll_connector_is_name(name) ? look(store, tenant, name, &w, err) : 0;

    if (r == 0)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no connector %.64s", name);
    if (r > 0 && !w.definition)
        r = atoll_fail(err, ATOLL_ERR_DATA_LOSS, EIO,
                       "connector %s cannot be read any more: create it again", name);
    if (r < 0) {
        json_decref(w.definition);
        return r;
    }
    *ret = (struct atoll_connector_view){name, w.definition, w.created_unix_ms, w.updated_unix_ms};
    *ret_definition = w.definition;
    return 0;
}

/* 1: it is new; 0: it takes the place of another one, which was made at *ret_created. */
static int admit(struct atoll_store *store, const char *tenant, const char *name, bool replace,
                 int64_t *ret_created, struct atoll_error *err)
{
    struct walk w = {0}, all = {0};
    int r = look(store, tenant, name, &w, err);

    json_decref(w.definition);
    *ret_created = w.created_unix_ms;
    if (r < 0)
        return r;
    if (r > 0)
        return replace
                   ? 0
                   : atoll_fail(err, ATOLL_ERR_ALREADY_EXISTS, EEXIST,
                                "connector %s exists; set \"replace\": true to change it", name);
    r = atoll_store_each_connector(store, tenant, NULL, take_row, &all, err);
    json_decref(all.definition);
    if (r == 0 && all.count >= ATOLL_CONNECTORS_MAX)
        r = atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                       "a tenant has at most %d connectors", ATOLL_CONNECTORS_MAX);
    return r < 0 ? r : 1;
}

int atoll_connectors_put(struct atoll_store *store, const char *tenant, const char *name,
                         const json_t *definition, bool replace, struct atoll_error *err)
{
    int64_t now = atoll_clock_unix_ms(), created = 0;
    char *text;
    int fresh, r;

    if (!atoll_connector_is_name(name))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the name of a connector has 1 to 64 letters, digits, \"_\" and \"-\"");
    if (json_object_get(definition, "oauth") && strlen(name) > ATOLL_OAUTH_NAME_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the name of a connector with oauth has at most %d characters",
                          ATOLL_OAUTH_NAME_MAX);
    fresh = admit(store, tenant, name, replace, &created, err);
    if (fresh < 0)
        return fresh;
    text = atoll_json_dump(definition, JSON_COMPACT);
    r = text ? atoll_store_put_connector(
                   store,
                   &(struct atoll_store_connector){.tenant = tenant,
                                                   .name = name,
                                                   .definition = text,
                                                   .created_unix_ms = fresh ? now : created,
                                                   .updated_unix_ms = now},
                   err)
             : atoll_fail_errno(err, ENOMEM, "a connector");
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
    return r < 0 ? r : fresh;
}

int atoll_connectors_remove(struct atoll_store *store, const char *tenant, const char *name,
                            struct atoll_error *err)
{
    struct walk w = {0};
    int r = atoll_connector_is_name(name) ? look(store, tenant, name, &w, err) : 0;

    json_decref(w.definition);
    if (r == 0)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no connector %.64s", name);
    return r < 0 ? r : atoll_store_drop_connector(store, tenant, name, err);
}
