/*
 * Where settings of providers come from. providers.yaml is checked by tables (provider_fields.c);
 * then fields with a second name are moved to the first, so that the rest of the daemon knows one
 * name of each. Providers that the environment enables are added as if the file had them, only for
 * requests that name them.
 */
#include "daemon/provider_sources.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "base/fd.h"
#include "sandbox/host.h"

#define FILE_MAX_BYTES (256 * 1024)

/* Second names of settings: FIELD of OBJECT ("": of the provider itself). */
static const struct synonym {
    const char *from_object, *from, *to_object, *to;
} synonyms[] = {
    {"", "default_template", "", "template"},
    {"", "timeout_seconds", "defaults", "timeoutSeconds"},
    {"resources", "memory_mb", "defaults", "memoryMB"},
    {"resources", "cpu_cores", "defaults", "cpuCores"},
};

/* Credentials in the environment: a service is enabled if all variables of its rows that are required
 * are set. The rows of a service are adjacent. */
static const struct variable {
    const char *kind, *name, *setting;
    bool required;
} variables[] = {
    {"e2b", "E2B_API_KEY", "api_key", true},
    {"e2b", "E2B_API_URL", "api_url", false},
    {"e2b", "E2B_SANDBOX_URL", "sandbox_url", false},
    {"e2b", "E2B_DOMAIN", "domain", false},
    {"daytona", "DAYTONA_API_KEY", "api_key", true},
    {"daytona", "DAYTONA_API_URL", "api_url", false},
    {"daytona", "DAYTONA_TARGET", "region", false},
    {"vercel", "VERCEL_TOKEN", "api_key", true},
    {"vercel", "VERCEL_TEAM_ID", "team", true},
    {"vercel", "VERCEL_PROJECT_ID", "project", true},
    {"vercel", "VERCEL_API_URL", "api_url", false},
};
#define LAST_ORDER 1001 /* after all that the file has */
#define DOCKER_IMAGE "debian:12"

/* Returns 0 with *ret NULL if there is no file. */
static int read_file(const struct atoll_daemon_place *place, const char *path, json_t **ret,
                     struct atoll_error *err)
{
    ATOLL_AUTOFREE char *text = malloc(FILE_MAX_BYTES + 1);
    ATOLL_AUTOCLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0 && errno == ENOENT && !*place->file)
        return 0;
    if (fd < 0 || !text)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, errno, "%s: %s", path, strerror(errno));
    n = read(fd, text, FILE_MAX_BYTES + 1);
    if (n < 0 || n > FILE_MAX_BYTES)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EFBIG, "%s cannot be read: %s", path,
                          strerror(n < 0 ? errno : EFBIG));
    return atoll_yaml_load_expanded(path, text, (size_t)n, atoll_provider_file_fields, ret, err);
}

static int refuse(const char *path, const char *name, const json_t *settings, const char *text,
                  struct atoll_error *err)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s:%d: provider %s %s", path,
                      (int)atoll_setting_number(settings, "@line"), name, text);
}

/* Moves providers at the top of the file to "providers". */
static int gather(const char *path, json_t *file, struct atoll_error *err)
{
    json_t *listed = json_object_get(file, "providers"), *own;

    if (!listed && json_object_set_new(file, "providers", json_object()) < 0)
        return atoll_fail_errno(err, ENOMEM, "providers");
    listed = json_object_get(file, "providers");
    for (size_t i = 0; i < atoll_provider_kind_count; i++) {
        const char *name = atoll_provider_kinds[i].name;

        own = json_object_get(file, name);
        if (own && json_object_get(listed, name))
            return refuse(path, name, own, "is in the file twice", err);
        if (own && json_object_set(listed, name, own) < 0)
            return atoll_fail_errno(err, ENOMEM, "providers");
        (void)json_object_del(file, name);
    }
    return 0;
}

/* Adds what `resources` says of the default template of a service to its sizes: there the template
 * decides what a sandbox gets. */
static int add_size(json_t *settings)
{
    const json_t *given = json_object_get(settings, "resources");
    json_t *memory = json_object_get(given, "memory_mb"),
           *cpus = json_object_get(given, "cpu_cores");
    const char *name = atoll_setting_text(settings, "template");
    const char *kind = atoll_setting_text(settings, "@kind");

    if (strcmp(kind, "daytona") == 0 && !name)
        name = "daytona-small";
    if ((strcmp(kind, "e2b") != 0 && strcmp(kind, "daytona") != 0) || !memory || !cpus)
        return 0;
    if (!json_object_get(settings, "sizes") &&
        json_object_set_new(settings, "sizes", json_array()) < 0)
        return -ENOMEM;
    return json_array_append_new(json_object_get(settings, "sizes"),
                                 json_pack("{s:s, s:O, s:O}", "template", name ? name : "base",
                                           "memoryMB", memory, "cpuCores", cpus));
}

static int use_first_names(const char *path, const char *name, json_t *settings,
                           struct atoll_error *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < ATOLL_ARRAY_LEN(synonyms); i++) {
        const struct synonym *s = &synonyms[i];
        const json_t *from = *s->from_object ? json_object_get(settings, s->from_object) : settings;
        json_t *value = json_object_get(from, s->from), *to = settings;
        char text[120];

        if (!value)
            continue;
        if (*s->to_object && !json_object_get(settings, s->to_object))
            r = json_object_set_new(settings, s->to_object, json_object());
        if (*s->to_object)
            to = json_object_get(settings, s->to_object);
        (void)snprintf(text, sizeof(text), "has both %s and %s, which mean the same", s->from,
                       s->to);
        if (json_object_get(to, s->to))
            return refuse(path, name, settings, text, err);
        if (r == 0)
            r = json_object_set(to, s->to, value);
    }
    if (r == 0)
        r = add_size(settings);
    (void)json_object_del(settings, "resources");
    (void)json_object_del(settings, "timeout_seconds");
    (void)json_object_del(settings, "default_template");
    return r < 0 ? atoll_fail_errno(err, ENOMEM, "providers") : 0;
}

/* Adds a provider that the file does not name. Ownership of settings is taken. */
static int add_found(json_t *listed, const char *name, const char *source, json_t *settings)
{
    json_t *more = json_pack("{s:s, s:s, s:b, s:i}", "@kind", name, "@source", source, "named_only",
                             1, "order", LAST_ORDER);
    int r = settings && more ? json_object_update(settings, more) : -ENOMEM;

    json_decref(more);
    if (r == 0)
        return json_object_set_new(listed, name, settings);
    json_decref(settings);
    return r;
}

/* Adds the services whose credentials the environment has. */
static int add_services(json_t *listed)
{
    size_t end;
    int r = 0;

    for (size_t i = 0; r == 0 && i < ATOLL_ARRAY_LEN(variables); i = end) {
        json_t *settings = json_object();
        char source[65] = "environment";
        bool complete = !json_object_get(listed, variables[i].kind);

        for (end = i; end < ATOLL_ARRAY_LEN(variables) &&
                      strcmp(variables[end].kind, variables[i].kind) == 0;
             end++) {
            const struct variable *v = &variables[end];
            const char *value = getenv(v->name);
            size_t at = strlen(source);

            complete &= !v->required || (value && *value);
            if (v->required)
                (void)snprintf(source + at, sizeof(source) - at, " %s", v->name);
            if (value && *value &&
                json_object_set_new(settings, v->setting, json_string(value)) < 0)
                complete = false; /* not UTF-8 */
        }
        if (complete)
            r = add_found(listed, variables[i].kind, source, settings);
        else
            json_decref(settings);
    }
    return r;
}

/* Adds the Docker engine of this host. */
static int add_docker(json_t *listed)
{
    const char *host = getenv("DOCKER_HOST");
    json_t *settings;

    if (json_object_get(listed, "docker") || (host && strncmp(host, "unix://", 7) != 0) ||
        atoll_host_ping_docker() < 0)
        return 0;
    settings = json_pack("{s:s}", "default_image", DOCKER_IMAGE);
    if (host && settings && json_object_set_new(settings, "host", json_string(host)) < 0) {
        json_decref(settings);
        return 0;
    }
    return add_found(listed, "docker", "Docker socket", settings);
}

int atoll_provider_sources_load(const struct atoll_daemon_place *place, const char *path,
                                json_t **ret, struct atoll_error *err)
{
    json_t *file = NULL, *settings;
    const char *name;
    int r = read_file(place, path, &file, err);

    if (r == 0 && !file && !(file = json_object()))
        r = atoll_fail_errno(err, ENOMEM, "providers");
    if (r == 0)
        r = gather(path, file, err);
    json_object_foreach(json_object_get(file, "providers"), name, settings)
    {
        if (r == 0)
            r = use_first_names(path, name, settings, err);
        if (r == 0 && json_object_set_new(settings, "@source", json_string(ATOLL_SOURCE_FILE)) < 0)
            r = atoll_fail_errno(err, ENOMEM, "providers");
    }
    if (r == 0 && (add_services(json_object_get(file, "providers")) < 0 ||
                   add_docker(json_object_get(file, "providers")) < 0))
        r = atoll_fail_errno(err, ENOMEM, "providers");
    if (r < 0)
        json_decref(file);
    else
        *ret = file;
    return r;
}
