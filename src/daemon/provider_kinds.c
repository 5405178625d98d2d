/*
 * How it works: each kind has a function that fills the provider's own config from its JSON object
 * and opens the provider. provider_fields.c has the fields of these objects.
 */
#include "daemon/provider_kinds.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "base/fd.h"
#include "base/rand.h"
#include "base/text.h"
#include "engine/engine.h"
#include "provider/daytona/daytona.h"
#include "provider/docker/docker.h"
#include "provider/e2b/e2b.h"
#include "provider/fake/fake.h"
#include "provider/gvisor/gvisor.h"
#include "provider/native/native.h"
#include "provider/plugin/plugin.h"
#include "provider/vercel/vercel.h"

#define LISTED_MAX 32 /* registries, mounts, headers: as in provider_fields.c */

const char *atoll_setting_text(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

double atoll_setting_number(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

bool atoll_setting_is_true(const json_t *object, const char *name)
{
    return json_is_true(json_object_get(object, name));
}

static int sync_up(const struct atoll_daemon_place *place,
                   const struct atoll_provider_settings *entry, struct atoll_sync_provider *sync,
                   struct atoll_provider **ret, struct atoll_error *err)
{
    return atoll_sync_wrap(place->loop, entry->workers, sync, ret, err);
}

/* The provider's directory: STATE/KIND, or STATE/KIND-NAME if the name differs from the kind. */
static void own_dir(const struct atoll_daemon_place *place, const char *kind,
                    const struct atoll_provider_settings *entry, char out[ATOLL_CONFIG_PATH_MAX])
{
    bool plain = strcmp(entry->name, kind) == 0;

    (void)snprintf(out, ATOLL_CONFIG_PATH_MAX, "%s/%s%s%s", place->state_dir, kind,
                   plain ? "" : "-", plain ? "" : entry->name);
}

static int open_native(const struct atoll_daemon_place *place,
                       const struct atoll_provider_settings *entry, struct atoll_provider **ret,
                       struct atoll_error *err)
{
    const struct atoll_native_config config = {
        .state_dir = place->state_dir,
        .program_dir = place->program_dir,
        .volumes_are_given = json_object_get(entry->settings, "volumes") != NULL,
        .volumes = (uint32_t)atoll_setting_number(entry->settings, "volumes"),
        .volume_bytes = json_object_get(entry->settings, "volume_mb")
                            ? (uint64_t)atoll_setting_number(entry->settings, "volume_mb") << 20
                            : ATOLL_NATIVE_VOLUME_BYTES,
        .free_tenant = ATOLL_OPERATOR_TENANT,
        .disks = place->disks,
        .host_folders = place->host_folders,
    };
    return atoll_native_open(place->loop, &config, ret, err);
}

/* The values of the setting, in the order of the enum. */
static enum atoll_docker_disk read_disk(const char *word)
{
    static const char *const words[] = {"auto", "quota", "tmpfs", "refuse"};

    for (size_t i = 0; word && i < ATOLL_ARRAY_LEN(words); i++)
        if (strcmp(word, words[i]) == 0)
            return (enum atoll_docker_disk)i;
    return ATOLL_DOCKER_DISK_AUTO;
}

static int open_docker(const struct atoll_daemon_place *place,
                       const struct atoll_provider_settings *entry, struct atoll_provider **ret,
                       struct atoll_error *err)
{
    const json_t *o = entry->settings, *registries = json_object_get(o, "registries"),
                 *mounts = json_object_get(o, "mounts"),
                 *host_paths = json_object_get(o, "host_paths");
    struct atoll_docker_registry auths[LISTED_MAX];
    struct atoll_docker_bind binds[LISTED_MAX], allowed[LISTED_MAX];
    char state[ATOLL_CONFIG_PATH_MAX];
    struct atoll_docker_config config = {
        .host = atoll_setting_text(o, "host"),
        .ca = atoll_setting_text(o, "ca"),
        .cert = atoll_setting_text(o, "cert"),
        .key = atoll_setting_text(o, "key"),
        .remote = atoll_setting_is_true(o, "remote"),
        .runtime = atoll_setting_text(o, "runtime"),
        .state_dir = state,
        .libexec_dir = place->program_dir,
        .default_image = atoll_setting_text(o, "default_image"),
        .bridge = atoll_setting_text(o, "bridge"),
        .registries = auths,
        .registry_count = json_array_size(registries),
        .private_registries = atoll_setting_is_true(o, "private_registries"),
        .binds = binds,
        .bind_count = json_array_size(mounts),
        .volumes = (unsigned)atoll_setting_number(o, "volumes"),
        .host_paths = allowed,
        .host_path_count = json_array_size(host_paths),
        .pool = (unsigned)atoll_setting_number(o, "pool"),
        .connections = (unsigned)atoll_setting_number(o, "connections"),
        .disk = read_disk(atoll_setting_text(o, "disk")),
        .succeeds = entry->succeeds,
    };
    struct atoll_sync_provider *sync;
    int r;

    own_dir(place, "docker", entry, state);
    for (size_t i = 0; i < config.registry_count; i++) {
        const json_t *one = json_array_get(registries, i);
        auths[i] = (struct atoll_docker_registry){atoll_setting_text(one, "host"),
                                                  atoll_setting_text(one, "username"),
                                                  atoll_setting_text(one, "password")};
    }
    for (size_t i = 0; i < config.bind_count; i++) {
        const json_t *one = json_array_get(mounts, i);
        binds[i] = (struct atoll_docker_bind){atoll_setting_text(one, "source"),
                                              atoll_setting_text(one, "target"),
                                              atoll_setting_is_true(one, "writable")};
    }
    for (size_t i = 0; i < config.host_path_count; i++) {
        const json_t *one = json_array_get(host_paths, i);
        allowed[i] = (struct atoll_docker_bind){.source = atoll_setting_text(one, "path"),
                                                .writable = atoll_setting_is_true(one, "writable")};
    }
    r = atoll_docker_provider_new(&config, &sync, err);
    return r < 0 ? r : sync_up(place, entry, sync, ret, err);
}

static int open_gvisor(const struct atoll_daemon_place *place,
                       const struct atoll_provider_settings *entry, struct atoll_provider **ret,
                       struct atoll_error *err)
{
    const json_t *o = entry->settings;
    const struct atoll_gvisor_config config = {.state_dir = place->state_dir,
                                               .program_dir = place->program_dir,
                                               .runsc = atoll_setting_text(o, "runsc"),
                                               .platform = atoll_setting_text(o, "platform")};
    struct atoll_sync_provider *sync;
    int r = atoll_gvisor_provider_new(&config, &sync, err);

    return r < 0 ? r : sync_up(place, entry, sync, ret, err);
}

/* The id that marks this daemon's sandboxes at remote services. It is kept in the state
 * directory. */
static int load_daemon_id(const char *state_dir, char id[ATOLL_UUID_LEN + 1],
                          struct atoll_error *err)
{
    char path[ATOLL_CONFIG_PATH_MAX];
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    int r;

    (void)snprintf(path, sizeof(path), "%s/daemon-id", state_dir);
    id[ATOLL_UUID_LEN] = '\0';
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && read(fd, id, ATOLL_UUID_LEN) == ATOLL_UUID_LEN)
        return 0;
    if (fd >= 0)
        (void)close(fd);
    atoll_rand_uuid(id);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    r = fd < 0 ? -errno : atoll_fd_write_all(fd, id, ATOLL_UUID_LEN);
    if (r == 0 && fsync(fd) < 0)
        r = -errno;
    return r < 0 ? atoll_fail_errno(err, -r, "keep the daemon's id") : 0;
}

/* Adds the provider to the mark, so that two providers at one service do not share sandboxes.
 * The name is hashed: it may have characters that marks may not. */
static void mark_name(char id[ATOLL_UUID_LEN + 16], const char *name)
{
    uint32_t hash = 2166136261u; /* FNV-1a */

    for (; *name; name++)
        hash = (hash ^ (uint8_t)*name) * 16777619u;
    (void)snprintf(id + ATOLL_UUID_LEN, 16, "-%08x", hash);
}

static int read_headers(json_t *o, struct atoll_remote_header_setting *out, size_t *ret_count,
                        struct atoll_error *err)
{
    const char *name;
    json_t *value;
    size_t n = 0;

    json_object_foreach(o, name, value)
    {
        if (n == LISTED_MAX)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "headers must be at most %d names", LISTED_MAX);
        out[n++] = (struct atoll_remote_header_setting){name, json_string_value(value)};
    }
    *ret_count = n;
    return 0;
}

static size_t read_sizes(const json_t *array, struct atoll_size out[ATOLL_SIZES_MAX])
{
    size_t count = ATOLL_MIN(json_array_size(array), (size_t)ATOLL_SIZES_MAX);

    for (size_t i = 0; i < count; i++) {
        const json_t *one = json_array_get(array, i);

        out[i] = (struct atoll_size){
            .memory_bytes = (uint64_t)(atoll_setting_number(one, "memoryMB") * 1048576),
            .cpu_millis = (uint32_t)(atoll_setting_number(one, "cpuCores") * 1000)};
        (void)snprintf(out[i].template_name, sizeof(out[i].template_name), "%s",
                       atoll_setting_text(one, "template"));
    }
    return count;
}

/* Settings of a provider of a service, with what they point to. */
struct service_settings {
    struct atoll_remote_config config;
    struct atoll_remote_header_setting headers[LISTED_MAX];
    struct atoll_size sizes[ATOLL_SIZES_MAX];
    char id[ATOLL_UUID_LEN + 16], agent[ATOLL_CONFIG_PATH_MAX];
};

static int read_service(const struct atoll_daemon_place *place, const char *kind,
                        const struct atoll_provider_settings *entry, struct service_settings *ret,
                        struct atoll_error *err)
{
    const json_t *o = entry->settings;
    int r = load_daemon_id(place->state_dir, ret->id, err);

    if (r == 0 && strcmp(entry->name, kind) != 0)
        mark_name(ret->id, entry->name);
    (void)snprintf(ret->agent, sizeof(ret->agent), "%s/atoll-agent", place->program_dir);
    ret->config = (struct atoll_remote_config){
        .api_url = atoll_setting_text(o, "api_url"),
        .api_key = atoll_setting_text(o, "api_key"),
        .api_key_file = atoll_setting_text(o, "api_key_file"),
        .api_key_env = atoll_setting_text(o, "api_key_env"),
        .key_of_request = atoll_setting_is_true(o, "key_of_request"),
        .ca_file = atoll_setting_text(o, "ca_file"),
        .template_id = atoll_setting_text(o, "template"),
        .timeout_s = (uint32_t)atoll_setting_number(o, "timeout"),
        .region = atoll_setting_text(o, "region"),
        .isolation = atoll_setting_text(o, "isolation"),
        .sizes = ret->sizes,
        .size_count = read_sizes(json_object_get(o, "sizes"), ret->sizes),
        .headers = ret->headers,
        .daemon_id = ret->id,
        .agent_path = ret->agent,
    };
    return r < 0 ? r
                 : read_headers(json_object_get(o, "headers"), ret->headers,
                                &ret->config.header_count, err);
}

static int open_e2b(const struct atoll_daemon_place *place,
                    const struct atoll_provider_settings *entry, struct atoll_provider **ret,
                    struct atoll_error *err)
{
    struct service_settings s;
    struct atoll_sync_provider *sync;
    int r = read_service(place, "e2b", entry, &s, err);

    if (r == 0)
        r = atoll_e2b_provider_new(
            &(struct atoll_e2b_provider_config){
                .common = s.config,
                .sandbox_url = atoll_setting_text(entry->settings, "sandbox_url"),
                .domain = atoll_setting_text(entry->settings, "domain")},
            &sync, err);
    return r < 0 ? r : sync_up(place, entry, sync, ret, err);
}

static int open_daytona(const struct atoll_daemon_place *place,
                        const struct atoll_provider_settings *entry, struct atoll_provider **ret,
                        struct atoll_error *err)
{
    struct service_settings s;
    struct atoll_sync_provider *sync;
    int r = read_service(place, "daytona", entry, &s, err);

    if (r == 0)
        r = atoll_daytona_provider_new(
            &(struct atoll_daytona_provider_config){
                .common = s.config,
                .toolbox_url = atoll_setting_text(entry->settings, "toolbox_url"),
                .user = atoll_setting_text(entry->settings, "user"),
                .pause = atoll_setting_is_true(entry->settings, "pause"),
                .is_public = atoll_setting_is_true(entry->settings, "public")},
            &sync, err);
    return r < 0 ? r : sync_up(place, entry, sync, ret, err);
}

static int open_vercel(const struct atoll_daemon_place *place,
                       const struct atoll_provider_settings *entry, struct atoll_provider **ret,
                       struct atoll_error *err)
{
    const json_t *o = entry->settings;
    struct service_settings s;
    struct atoll_sync_provider *sync;
    int r = read_service(place, "vercel", entry, &s, err);

    if (r == 0)
        r = atoll_vercel_provider_new(
            &(struct atoll_vercel_provider_config){
                .common = s.config,
                .team = atoll_setting_text(o, "team"),
                .project = atoll_setting_text(o, "project"),
                .sandbox_url = atoll_setting_text(o, "sandbox_url"),
                .relay_port = (uint16_t)atoll_setting_number(o, "relay_port"),
                .max_vcpus = (uint32_t)atoll_setting_number(o, "max_vcpus")},
            &sync, err);
    return r < 0 ? r : sync_up(place, entry, sync, ret, err);
}

static int open_fake(const struct atoll_daemon_place *place,
                     const struct atoll_provider_settings *entry, struct atoll_provider **ret,
                     struct atoll_error *err)
{
    char state[ATOLL_CONFIG_PATH_MAX], agent[ATOLL_CONFIG_PATH_MAX];
    const struct atoll_fake_config config = {.state_dir = state,
                                             .agent_path = agent,
                                             .control =
                                                 atoll_setting_text(entry->settings, "control")};
    struct atoll_sync_provider *sync;
    int r;

    own_dir(place, "fake", entry, state);
    (void)snprintf(agent, sizeof(agent), "%s/atoll-agent", place->program_dir);
    r = atoll_fake_provider_new(&config, &sync, err);
    return r < 0 ? r : sync_up(place, entry, sync, ret, err);
}

static int open_plugin(const struct atoll_daemon_place *place,
                       const struct atoll_provider_settings *entry, struct atoll_provider **ret,
                       struct atoll_error *err)
{
    const json_t *settings = json_object_get(entry->settings, "settings");
    char *text = settings ? json_dumps(settings, JSON_COMPACT) : NULL;
    char state[ATOLL_CONFIG_PATH_MAX], agent[ATOLL_CONFIG_PATH_MAX];
    const char *program = atoll_setting_text(entry->settings, "program");
    const struct atoll_plugin_config config = {.name = entry->name,
                                               .program = program ? program : "",
                                               .state_dir = state,
                                               .agent_path = agent,
                                               .settings_json = text};
    struct atoll_sync_provider *sync;
    int r;

    own_dir(place, "plugin", entry, state);
    (void)snprintf(agent, sizeof(agent), "%s/atoll-agent", place->program_dir);
    r = atoll_plugin_provider_new(&config, &sync, err);
    free(text);
    return r < 0 ? r : sync_up(place, entry, sync, ret, err);
}

static int open_webcontainer(const struct atoll_daemon_place *place ATOLL_UNUSED,
                             const struct atoll_provider_settings *entry ATOLL_UNUSED,
                             struct atoll_provider **ret ATOLL_UNUSED, struct atoll_error *err)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENOSYS,
                      "not available: a WebContainer runs in a browser, not at a daemon. Set "
                      "enabled: false or remove the block; the environment Node runs the same "
                      "code at other providers, and previews show its pages in a browser");
}

/* Where each kind makes sandboxes. */

static const char *of_docker(const json_t *o)
{
    const char *host = atoll_setting_text(o, "host");
    return host ? host : "";
}

static const char *of_e2b(const json_t *o)
{
    const char *url = atoll_setting_text(o, "api_url"), *domain = atoll_setting_text(o, "domain");
    return url ? url : domain ? domain : "";
}

static const char *of_daytona(const json_t *o)
{
    const char *url = atoll_setting_text(o, "api_url");
    return url ? url : "";
}

static const char *of_vercel(const json_t *o)
{
    const char *project = atoll_setting_text(o, "project");
    return project ? project : of_daytona(o);
}

static const char *of_itself(const json_t *o ATOLL_UNUSED)
{
    return "";
}

const struct atoll_provider_kind atoll_provider_kinds[] = {
    {"native", true, false, true, open_native, of_itself},
    {"gvisor", false, false, true, open_gvisor, of_itself},
    {"docker", false, false, false, open_docker, of_docker},
    {"e2b", false, false, false, open_e2b, of_e2b},
    {"daytona", false, false, false, open_daytona, of_daytona},
    {"vercel", false, false, false, open_vercel, of_vercel},
    {"fake", false, true, false, open_fake, of_itself},
    {"plugin", false, false, false, open_plugin, of_itself},
    {"webcontainer", false, false, false, open_webcontainer, of_itself},
};
const size_t atoll_provider_kind_count = ATOLL_ARRAY_LEN(atoll_provider_kinds);

/* What each kind supports on a host without restrictions. */
#define NETWORK(mode) (1u << ATOLL_NETWORK_##mode)
static const struct atoll_route_kind choices[] = {
    {"native",
     "{}",
     true,
     {.isolation = "namespaces",
      .templates = true,
      .volumes = true,
      .disk_choice = true,
      .pause = true,
      .persistent = true,
      .networks = NETWORK(NONE) | NETWORK(ISOLATED) | NETWORK(BRIDGE)}},
    {"gvisor",
     "{}",
     true,
     {.isolation = "gvisor",
      .templates = true,
      .networks = NETWORK(NONE) | NETWORK(ISOLATED) | NETWORK(BRIDGE)}},
    {"docker",
     "{default_image: \"debian:12\"}",
     false,
     {.isolation = "container",
      .images = true,
      .builds = true,
      .volumes = true,
      .pause = true,
      .networks = NETWORK(NONE) | NETWORK(ISOLATED) | NETWORK(BRIDGE)}},
    {"e2b",
     "{api_key_file: FILE}",
     false,
     {.isolation = "microvm",
      .own_templates = true,
      .pause = true,
      .networks = NETWORK(NONE) | NETWORK(BRIDGE)}},
    {"daytona",
     "{api_key_file: FILE}",
     false,
     {.isolation = "container",
      .own_templates = true,
      .networks = NETWORK(NONE) | NETWORK(BRIDGE)}},
    {"vercel",
     "{api_key_file: FILE, team: TEAM, project: PROJECT}",
     false,
     {.isolation = "microvm", .own_templates = true, .networks = NETWORK(NONE) | NETWORK(BRIDGE)}},
};
const struct atoll_route_kinds atoll_provider_choices = {choices, ATOLL_ARRAY_LEN(choices)};
