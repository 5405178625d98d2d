/*
 * The fields that providers.yaml may have: a table for each kind of provider.
 */
#include "daemon/provider_kinds.h"
#include "provider/sizes.h"

#define ENTRIES_MAX 16
#define LISTED_MAX 32 /* entries in registries, mounts */

/* Fields of every provider. */
static const struct atoll_yaml_field defaults[] = {
#define REQUEST_LIMIT(...)
#define LIMIT(member, name, unit, least, most) {name, ATOLL_YAML_##unit, false, least, most, NULL},
#include "sandbox/limits.def"
    {0},
};
/* Other names of fields of `defaults`; see provider_sources.c. */
static const struct atoll_yaml_field resources[] = {
    {"memory_mb", ATOLL_YAML_NUMBER, false, 8, 1048576, NULL},
    {"cpu_cores", ATOLL_YAML_NUMBER, false, 0.01, 1024, NULL},
    {0},
};
static const struct atoll_yaml_field network_modes[] = {{.name = "none"},
                                                        {.name = "isolated"},
                                                        {.name = "bridge"},
                                                        {0}};
static const struct atoll_yaml_field kind_names[10];
#define COMMON                                                            \
    {"enabled", ATOLL_YAML_BOOL, false, 0, 0, NULL},                      \
        {"order", ATOLL_YAML_WHOLE, false, 1, 1000, NULL},                \
        {"max_sandboxes", ATOLL_YAML_WHOLE, false, 0, 65536, NULL},       \
        {"kind", ATOLL_YAML_CHOICE, false, 0, 0, kind_names},             \
        {"named_only", ATOLL_YAML_BOOL, false, 0, 0, NULL},               \
        {"weight", ATOLL_YAML_WHOLE, false, 1, 1000, NULL},               \
        {"networkMode", ATOLL_YAML_CHOICE, false, 0, 0, network_modes},   \
        {"languages", ATOLL_YAML_STRINGS, false, 1, 32, NULL},            \
        {"most", ATOLL_YAML_OBJECT, false, 0, 0, defaults},               \
        {"resources", ATOLL_YAML_OBJECT, false, 0, 0, resources},         \
        {"timeout_seconds", ATOLL_YAML_NUMBER, false, 0, 32140800, NULL}, \
        {"check_seconds", ATOLL_YAML_NUMBER, false, 0.1, 3600, NULL},     \
        {"orphans_seconds", ATOLL_YAML_NUMBER, false, 0.1, 86400, NULL},  \
        {"reattach_seconds", ATOLL_YAML_NUMBER, false, 0.1, 3600, NULL},  \
    {                                                                     \
        "defaults", ATOLL_YAML_OBJECT, false, 0, 0, defaults              \
    }
#define TEXT(name)                                    \
    {                                                 \
        name, ATOLL_YAML_STRING, false, 1, 1024, NULL \
    }

static const struct atoll_yaml_field native_fields[] = {
    COMMON,
    {"volumes", ATOLL_YAML_WHOLE, false, 0, 100000, NULL},
    {"volume_mb", ATOLL_YAML_WHOLE, false, 0, 1 << 24, NULL},
    {0}};

static const struct atoll_yaml_field registry_fields[] = {
    {"host", ATOLL_YAML_STRING, true, 1, 255, NULL},
    {"username", ATOLL_YAML_STRING, true, 0, 255, NULL},
    {"password", ATOLL_YAML_STRING, true, 0, 4096, NULL},
    {0},
};
static const struct atoll_yaml_field mount_fields[] = {
    {"source", ATOLL_YAML_STRING, true, 1, 1024, NULL},
    {"target", ATOLL_YAML_STRING, true, 1, 1024, NULL},
    {"writable", ATOLL_YAML_BOOL, false, 0, 0, NULL},
    {0},
};
static const struct atoll_yaml_field host_path_fields[] = {
    {"path", ATOLL_YAML_STRING, true, 1, 255, NULL},
    {"writable", ATOLL_YAML_BOOL, false, 0, 0, NULL},
    {0},
};
static const struct atoll_yaml_field disk_words[] = {{.name = "auto"},
                                                     {.name = "quota"},
                                                     {.name = "tmpfs"},
                                                     {.name = "refuse"},
                                                     {0}};
static const struct atoll_yaml_field docker_fields[] = {
    COMMON,
    TEXT("host"),
    TEXT("ca"),
    TEXT("cert"),
    TEXT("key"),
    {"remote", ATOLL_YAML_BOOL, false, 0, 0, NULL},
    TEXT("runtime"),
    {"default_image", ATOLL_YAML_STRING, false, 1, 255, NULL},
    TEXT("bridge"),
    {"disk", ATOLL_YAML_CHOICE, false, 0, 0, disk_words},
    {"registries", ATOLL_YAML_OBJECTS, false, 0, LISTED_MAX, registry_fields},
    {"private_registries", ATOLL_YAML_BOOL, false, 0, 0, NULL},
    {"mounts", ATOLL_YAML_OBJECTS, false, 0, LISTED_MAX, mount_fields},
    {"volumes", ATOLL_YAML_WHOLE, false, 0, 1024, NULL},
    {"host_paths", ATOLL_YAML_OBJECTS, false, 0, LISTED_MAX, host_path_fields},
    {"pool", ATOLL_YAML_WHOLE, false, 0, 64, NULL},
    {"connections", ATOLL_YAML_WHOLE, false, 1, 64, NULL},
    {0},
};
static const struct atoll_yaml_field gvisor_fields[] =
    {COMMON, TEXT("runsc"), {"platform", ATOLL_YAML_NAME, false, 0, 0, NULL}, {0}};
static const struct atoll_yaml_field isolation_words[] = {{.name = "namespaces"},
                                                          {.name = "container"},
                                                          {.name = "gvisor"},
                                                          {.name = "microvm"},
                                                          {0}};
static const struct atoll_yaml_field size_fields[] = {
    {"template", ATOLL_YAML_STRING, true, 1, 128, NULL},
    {"memoryMB", ATOLL_YAML_NUMBER, true, 1, 1048576, NULL},
    {"cpuCores", ATOLL_YAML_NUMBER, true, 0.01, 1024, NULL},
    {0},
};
/* Of providers whose sandboxes are made by a service. */
#define SIZES                                                               \
    {                                                                       \
        "sizes", ATOLL_YAML_OBJECTS, false, 0, ATOLL_SIZES_MAX, size_fields \
    }
#define SERVICE                                                                                    \
    COMMON, TEXT("api_url"), TEXT("api_key"), TEXT("api_key_file"), TEXT("api_key_env"),           \
        {"key_of_request", ATOLL_YAML_BOOL, false, 0, 0, NULL}, TEXT("ca_file"), TEXT("template"), \
        TEXT("default_template"), {"timeout", ATOLL_YAML_WHOLE, false, 60, 86400, NULL},           \
        TEXT("region"), {"isolation", ATOLL_YAML_CHOICE, false, 0, 0, isolation_words},            \
    {                                                                                              \
        "headers", ATOLL_YAML_ENV, false, 0, 0, NULL                                               \
    }
static const struct atoll_yaml_field e2b_fields[] = {SERVICE,
                                                     SIZES,
                                                     TEXT("sandbox_url"),
                                                     TEXT("domain"),
                                                     {0}};
static const struct atoll_yaml_field daytona_fields[] = {
    SERVICE,
    SIZES,
    TEXT("toolbox_url"),
    TEXT("user"),
    {"pause", ATOLL_YAML_BOOL, false, 0, 0, NULL},
    {"public", ATOLL_YAML_BOOL, false, 0, 0, NULL},
    {0},
};
static const struct atoll_yaml_field vercel_fields[] = {
    SERVICE,
    TEXT("team"),
    TEXT("project"),
    TEXT("sandbox_url"),
    {"relay_port", ATOLL_YAML_WHOLE, false, 1024, 65535, NULL},
    {"max_vcpus", ATOLL_YAML_WHOLE, false, 0, 64, NULL},
    {0},
};
static const struct atoll_yaml_field fake_fields[] = {COMMON, TEXT("control"), {0}};
static const struct atoll_yaml_field plugin_fields[] = {
    COMMON,
    {"program", ATOLL_YAML_STRING, true, 1, 1024, NULL},
    {"default_image", ATOLL_YAML_STRING, false, 1, 255, NULL},
    {"settings", ATOLL_YAML_ENV, false, 0, 0, NULL},
    {0},
};

/* Known so that a block of another product's file gets an answer; see open_webcontainer(). */
static const struct atoll_yaml_field webcontainer_fields[] = {
    COMMON, TEXT("workdir"), TEXT("coep"), {"forward_errors", ATOLL_YAML_BOOL, false, 0, 0, NULL},
    {0},
};

static const struct atoll_yaml_field kind_names[10] = {
    {"native", ATOLL_YAML_OBJECT, false, 0, 0, native_fields},
    {"docker", ATOLL_YAML_OBJECT, false, 0, 0, docker_fields},
    {"gvisor", ATOLL_YAML_OBJECT, false, 0, 0, gvisor_fields},
    {"e2b", ATOLL_YAML_OBJECT, false, 0, 0, e2b_fields},
    {"daytona", ATOLL_YAML_OBJECT, false, 0, 0, daytona_fields},
    {"vercel", ATOLL_YAML_OBJECT, false, 0, 0, vercel_fields},
    {"fake", ATOLL_YAML_OBJECT, false, 0, 0, fake_fields},
    {"plugin", ATOLL_YAML_OBJECT, false, 0, 0, plugin_fields},
    {"webcontainer", ATOLL_YAML_OBJECT, false, 0, 0, webcontainer_fields},
    {0},
};
/* In the order of enum atoll_placement. */
static const struct atoll_yaml_field placements[] = {{.name = "order"},
                                                     {.name = "spread"},
                                                     {.name = "weight"},
                                                     {0}};
const struct atoll_yaml_field atoll_provider_file_fields[] = {
    {"placement", ATOLL_YAML_CHOICE, false, 0, 0, placements},
    {"providers", ATOLL_YAML_KINDS, false, 0, ENTRIES_MAX, kind_names},
    /* Those with the name of their kind may also be at the top. */
    {"native", ATOLL_YAML_KIND, false, 0, 0, kind_names},
    {"docker", ATOLL_YAML_KIND, false, 0, 0, kind_names},
    {"gvisor", ATOLL_YAML_KIND, false, 0, 0, kind_names},
    {"e2b", ATOLL_YAML_KIND, false, 0, 0, kind_names},
    {"daytona", ATOLL_YAML_KIND, false, 0, 0, kind_names},
    {"vercel", ATOLL_YAML_KIND, false, 0, 0, kind_names},
    {"fake", ATOLL_YAML_KIND, false, 0, 0, kind_names},
    {"plugin", ATOLL_YAML_KIND, false, 0, 0, kind_names},
    {"webcontainer", ATOLL_YAML_KIND, false, 0, 0, kind_names},
    {0},
};
