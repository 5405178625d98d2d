#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/base64.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/switches.h"
#include "engine/build/build_internal.h"
#include "engine/json_memory.h"
#include "store/seal.h"

/*
 * The file of a build, builds/ID: what a new daemon needs to continue it, or how it ended. It may contain
 * secrets and build arguments, so it is sealed (store/seal.h). The file of an ended build has neither them nor the recipe.
 */
#define DIRECTORY "builds"
#define FILE_MAX_BYTES ((size_t)64 * 1024 * 1024)
#define PURPOSE "build"

/* Members that are texts. */
static const struct {
    const char *name;
    size_t offset;
} texts[] = {
    {"name", offsetof(struct atoll_make, name)},
    {"tags", offsetof(struct atoll_make, tags)},
    {"source", offsetof(struct atoll_make, source)},
    {"definition", offsetof(struct atoll_make, definition)},
    {"target", offsetof(struct atoll_make, target)},
    {"policy", offsetof(struct atoll_make, policy)},
    {"startCmd", offsetof(struct atoll_make, start_cmd)},
    {"readyCmd", offsetof(struct atoll_make, ready_cmd)},
};

static char **text_at(struct atoll_make *make, size_t i)
{
    return (char **)(void *)((char *)make + texts[i].offset);
}

static json_t *limits_json(const struct atoll_limits *l)
{
    json_t *limits = json_object();

#define LIMIT(member, ...) \
    (void)json_object_set_new(limits, #member, json_integer((json_int_t)l->member));
#include "sandbox/limits.def"
    return limits;
}

static void limits_read(const json_t *limits, struct atoll_limits *l)
{
#define LIMIT(member, ...) \
    l->member = (__typeof__(l->member))json_integer_value(json_object_get(limits, #member));
#include "sandbox/limits.def"
}

static json_t *lists_json(const struct atoll_make *make)
{
    json_t *args = json_array(), *contexts = json_array(), *secrets = json_array();

    for (size_t i = 0; i < make->arg_count; i++)
        (void)json_array_append_new(args,
                                    json_pack("[s, s?]", make->args[i].name, make->args[i].value));
    for (size_t i = 0; i < make->source_count; i++)
        (void)json_array_append_new(
            contexts, json_pack("[s, s]", make->sources[i].name, make->sources[i].context));
    for (size_t i = 0; i < make->secret_count; i++) {
        const struct atoll_make_secret *secret = &make->secrets[i];
        struct atoll_buf encoded;
        atoll_buf_init(&encoded, secret->len * 2 + 16);
        if (atoll_base64_encode(&encoded, secret->bytes, secret->len) == 0)
            (void)json_array_append_new(secrets,
                                        json_pack("[s, s]", secret->id, atoll_buf_str(&encoded)));
        atoll_buf_wipe(&encoded);
    }
    return json_pack("{s:o, s:o, s:o, s:o*}", "args", args, "contexts", contexts, "secrets",
                     secrets, "login",
                     make->login ? json_pack("[s, s, s]", make->login_image, make->login->username,
                                             make->login->password)
                                 : NULL);
}

static json_t *error_json(const struct atoll_make *make)
{
    json_t *instruction = json_string(make->error_text);

    /* A text that was cut inside of a character is not stored. */
    return json_pack("{s:s, s:s, s:i, s:i, s:o}", "kind", atoll_error_kind_name(make->error.kind),
                     "text", make->error.text, "line", make->error_line, "step",
                     (int)make->error_step, "instruction",
                     instruction ? instruction : json_string(""));
}

static json_t *to_json(struct atoll_make *make)
{
    const bool ended = make->state >= ATOLL_MAKE_READY;
    json_t *json = json_pack(
        "{s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:b, s:b, s:I, s:I, s:i, s:i, s:i, s:s, s:s, s:s}",
        "id", make->id, "tenant", make->tenant, "owner", make->owner, "state",
        atoll_make_state_name(make->state), "network", (int)make->network, "created",
        (json_int_t)make->created_unix_ms, "ended", (json_int_t)make->ended_unix_ms, "noCache",
        make->no_cache, "debug", make->debug, "cpuMillis", (json_int_t)make->cpu_millis,
        "memoryBytes", (json_int_t)make->memory_bytes, "steps", (int)make->step_count, "stepsDone",
        (int)make->steps_done, "stepsCached", (int)make->steps_cached, "version", make->version,
        "digest", make->digest, "debugTemplate", make->debug_template);

    for (size_t i = 0; json && i < ATOLL_ARRAY_LEN(texts); i++)
        if (*text_at(make, i))
            (void)json_object_set_new(json, texts[i].name, json_string_nocheck(*text_at(make, i)));
    if (json && ended)
        (void)json_object_set_new(json, "error", error_json(make));
    if (json && !ended) {
        (void)json_object_set_new(json, "limits", limits_json(&make->limits));
        (void)json_object_set_new(json, "recipe", atoll_recipe_to_json(make->recipe));
        (void)json_object_set_new(json, "inputs", lists_json(make));
    }
    return json;
}

static void name_of(const char *id, char out[64])
{
    (void)snprintf(out, 64, DIRECTORY "/%s", id);
}

int atoll_make_save(struct atoll_make *make, struct atoll_error *err)
{
    const struct atoll_seal_place place = {PURPOSE, make->id};
    int state_fd = make->engine->state_fd, r;
    json_t *json = to_json(make);
    char *text = json ? atoll_json_dump(json, JSON_COMPACT) : NULL;
    struct atoll_buf sealed;
    char name[64];

    json_decref(json);
    if (!text)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "out of memory");
    atoll_buf_init(&sealed, FILE_MAX_BYTES);
    r = atoll_seal_write(atoll_store_seal(make->engine->config.store), &place, text, strlen(text),
                         &sealed, err);
    explicit_bzero(text, strlen(text));
    free(text);
    if (r == 0) {
        name_of(make->id, name);
        r = atoll_fault("build.save");
        if (r == 0 && mkdirat(state_fd, DIRECTORY, 0700) < 0 && errno != EEXIST)
            r = errno;
        if (r == 0)
            r = -atoll_fd_replace_file(state_fd, name, atoll_buf_head(&sealed),
                                       atoll_buf_size(&sealed));
        r = r > 0 ? atoll_fail_errno(err, r, "store the build") : 0;
    }
    atoll_buf_done(&sealed);
    return r;
}

void atoll_make_unsave(struct atoll_make *make)
{
    char name[64];

    name_of(make->id, name);
    (void)unlinkat(make->engine->state_fd, name, 0);
}

/* --- a new daemon --- */

static void read_login(struct atoll_make *make, const json_t *login)
{
    const char *image = json_string_value(json_array_get(login, 0));
    const char *user = json_string_value(json_array_get(login, 1));
    const char *password = json_string_value(json_array_get(login, 2));

    if (!image || !user || !password)
        return;
    make->login_image = strdup(image);
    make->login = atoll_alloc(sizeof(*make->login));
    (void)snprintf(make->login->username, sizeof(make->login->username), "%s", user);
    (void)snprintf(make->login->password, sizeof(make->login->password), "%s", password);
    if (!make->login_image)
        abort();
}

static void read_lists(struct atoll_make *make, const json_t *inputs)
{
    const json_t *args = json_object_get(inputs, "args");
    const json_t *contexts = json_object_get(inputs, "contexts");
    const json_t *secrets = json_object_get(inputs, "secrets");
    json_t *item;
    size_t i;

    make->args = atoll_alloc((json_array_size(args) + 1) * sizeof(*make->args));
    make->sources = atoll_alloc((json_array_size(contexts) + 1) * sizeof(*make->sources));
    make->secrets = atoll_alloc((json_array_size(secrets) + 1) * sizeof(*make->secrets));
    json_array_foreach(args, i, item)
    {
        const char *name = json_string_value(json_array_get(item, 0));
        const char *value = json_string_value(json_array_get(item, 1));
        make->args[make->arg_count++] = (struct atoll_recipe_pair){
            atoll_recipe_text(&make->memory, name ? name : "", name ? strlen(name) : 0),
            value ? atoll_recipe_text(&make->memory, value, strlen(value)) : NULL,
        };
    }
    json_array_foreach(contexts, i, item)
    {
        const char *name = json_string_value(json_array_get(item, 0));
        const char *context = json_string_value(json_array_get(item, 1));
        make->sources[make->source_count].name = strdup(name ? name : "");
        make->sources[make->source_count++].context = strdup(context ? context : "");
    }
    json_array_foreach(secrets, i, item)
    {
        const char *id = json_string_value(json_array_get(item, 0));
        const char *text = json_string_value(json_array_get(item, 1));
        struct atoll_buf plain;
        char *bytes;
        atoll_buf_init(&plain, FILE_MAX_BYTES);
        if (text && atoll_base64_decode(&plain, text, strlen(text)) < 0)
            atoll_buf_clear(&plain);
        bytes = atoll_alloc(atoll_buf_size(&plain) + 1);
        if (atoll_buf_size(&plain) > 0)
            memcpy(bytes, atoll_buf_head(&plain), atoll_buf_size(&plain));
        make->secrets[make->secret_count++] =
            (struct atoll_make_secret){strdup(id ? id : ""), bytes, atoll_buf_size(&plain)};
        atoll_buf_wipe(&plain);
    }
}

static int64_t number(const json_t *json, const char *name)
{
    return json_integer_value(json_object_get(json, name));
}

static void copy_text(const json_t *json, const char *name, char *out, size_t cap)
{
    const char *text = json_string_value(json_object_get(json, name));

    (void)snprintf(out, cap, "%s", text ? text : "");
}

static void read_facts(struct atoll_make *make, const json_t *json)
{
    char state[16];

    copy_text(json, "id", make->id, sizeof(make->id));
    copy_text(json, "tenant", make->tenant, sizeof(make->tenant));
    copy_text(json, "owner", make->owner, sizeof(make->owner));
    copy_text(json, "version", make->version, sizeof(make->version));
    copy_text(json, "digest", make->digest, sizeof(make->digest));
    copy_text(json, "debugTemplate", make->debug_template, sizeof(make->debug_template));
    copy_text(json, "state", state, sizeof(state));
    for (int i = 0; i <= ATOLL_MAKE_CANCELED; i++)
        if (strcmp(atoll_make_state_name((enum atoll_make_state)i), state) == 0)
            make->state = (enum atoll_make_state)i;
    make->network = (enum atoll_network)number(json, "network");
    make->created_unix_ms = number(json, "created");
    make->ended_unix_ms = number(json, "ended");
    make->cpu_millis = (uint32_t)number(json, "cpuMillis");
    make->memory_bytes = (uint64_t)number(json, "memoryBytes");
    make->no_cache = json_is_true(json_object_get(json, "noCache"));
    make->debug = json_is_true(json_object_get(json, "debug"));
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(texts); i++) {
        const char *text = json_string_value(json_object_get(json, texts[i].name));
        if (text && !(*text_at(make, i) = strdup(text)))
            abort();
    }
}

static int read_rest(struct atoll_make *make, const json_t *json, struct atoll_error *err)
{
    const json_t *error = json_object_get(json, "error");
    char kind[32];

    if (make->state >= ATOLL_MAKE_READY) {
        make->step_count = (uint32_t)number(json, "steps");
        make->steps_done = (uint32_t)number(json, "stepsDone");
        make->steps_cached = (uint32_t)number(json, "stepsCached");
        copy_text(error, "kind", kind, sizeof(kind));
        make->error.kind = atoll_error_kind_by_name(kind);
        copy_text(error, "text", make->error.text, sizeof(make->error.text));
        make->error_line = (int)number(error, "line");
        make->error_step = (unsigned)number(error, "step");
        copy_text(error, "instruction", make->error_text, sizeof(make->error_text));
        return 0;
    }
    limits_read(json_object_get(json, "limits"), &make->limits);
    read_login(make, json_object_get(json_object_get(json, "inputs"), "login"));
    read_lists(make, json_object_get(json, "inputs"));
    return atoll_recipe_from_json(json_object_get(json, "recipe"), &make->recipe, err);
}

static int read_sealed(struct atoll_engine *engine, const char *id, struct atoll_buf *plain,
                       struct atoll_error *err)
{
    const struct atoll_seal_place place = {PURPOSE, id};
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    struct atoll_buf sealed;
    struct stat st;
    uint8_t *tail;
    char name[64];
    int r;

    name_of(id, name);
    fd = openat(engine->state_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return atoll_fail_errno(err, errno, "read");
    atoll_buf_init(&sealed, FILE_MAX_BYTES);
    r = atoll_buf_reserve(&sealed, (size_t)st.st_size, &tail);
    if (r == 0)
        r = atoll_fd_read_all(fd, tail, (size_t)st.st_size);
    if (r < 0) {
        atoll_buf_done(&sealed);
        return atoll_fail_errno(err, -r, "read");
    }
    atoll_buf_commit(&sealed, (size_t)st.st_size);
    r = atoll_seal_read(atoll_store_seal(engine->config.store), &place, atoll_buf_head(&sealed),
                        atoll_buf_size(&sealed), plain, err);
    atoll_buf_done(&sealed);
    return r;
}

static int load(struct atoll_engine *engine, const char *id, struct atoll_error *err)
{
    struct atoll_make *make;
    struct atoll_buf plain;
    json_error_t why;
    json_t *json;
    int r;

    atoll_buf_init(&plain, FILE_MAX_BYTES);
    r = read_sealed(engine, id, &plain, err);
    json = r < 0 ? NULL : atoll_json_load(atoll_buf_head(&plain), atoll_buf_size(&plain), 0, &why);
    atoll_buf_wipe(&plain);
    if (!json)
        return r < 0 ? r : atoll_fail(err, ATOLL_ERR_DATA_LOSS, EBADMSG, "%s", why.text);
    make = atoll_make_new(engine);
    read_facts(make, json);
    r = read_rest(make, json, err);
    json_decref(json);
    if (r < 0)
        atoll_make_free(make);
    else
        atoll_list_push_back(&atoll_makes(engine)->makes, &make->node);
    return r;
}

void atoll_makes_load(struct atoll_engine *engine)
{
    int fd = openat(engine->state_fd, DIRECTORY, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    struct atoll_error err;

    while (directory && (entry = readdir(directory))) {
        if (strlen(entry->d_name) !=
            ATOLL_VERSION_ID_LEN) /* "." and files that were not finished */
            continue;
        if (load(engine, entry->d_name, &err) < 0) {
            atoll_log(ATOLL_LOG_WARN, "stored build is not readable", "build", entry->d_name,
                      "error", err.text, NULL);
            (void)unlinkat(fd, entry->d_name, 0);
        }
    }
    if (directory)
        (void)closedir(directory);
    else if (fd >= 0)
        (void)close(fd);
}
