/*
 * What operators write: files of the registry, providers.yaml, the daemon's configuration. The first
 * byte chooses which. What is accepted keeps what the tables promise; what is refused is refused with
 * the file and the place in it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include "base/fd.h"
#include "daemon/config.h"
#include "daemon/provider_kinds.h"
#include "fuzz.h"
#include "registry/registry_internal.h"

/* libfyaml forgets some memory of documents that it refuses. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libfyaml";
}

static void check_refusal(const struct atoll_error *err, const char *file)
{
    FUZZ_CHECK(err->kind == ATOLL_ERR_INVALID_ARGUMENT);
    FUZZ_CHECK(strnlen(err->text, sizeof(err->text)) < sizeof(err->text));
    FUZZ_CHECK(strncmp(err->text, file, strlen(file)) == 0);
}

static void check_field(const json_t *value, const struct atoll_yaml_field *f);

/* Only fields of the table, and all that it requires. */
static void check_object(const json_t *object, const struct atoll_yaml_field *table)
{
    FUZZ_CHECK(json_is_object(object));
    for (const struct atoll_yaml_field *f = table; f->name; f++) {
        const json_t *value = json_object_get(object, f->name);
        FUZZ_CHECK(value || !f->required);
        if (value)
            check_field(value, f);
    }
}

static void check_each(const json_t *list, const struct atoll_yaml_field *f)
{
    FUZZ_CHECK(json_array_size(list) >= f->min && json_array_size(list) <= f->max);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (f->type == ATOLL_YAML_OBJECTS)
            check_object(json_array_get(list, i), f->table);
        else
            FUZZ_CHECK(json_is_string(json_array_get(list, i)));
}

static void check_field(const json_t *value, const struct atoll_yaml_field *f)
{
    switch (f->type) {
    case ATOLL_YAML_STRING:
        FUZZ_CHECK(json_is_string(value) && json_string_length(value) >= f->min &&
                   json_string_length(value) <= f->max);
        break;
    case ATOLL_YAML_NAME:
    case ATOLL_YAML_PROGRAM:
        FUZZ_CHECK(json_is_string(value) && !strchr(json_string_value(value), '/'));
        break;
    case ATOLL_YAML_NUMBER:
    case ATOLL_YAML_WHOLE:
        FUZZ_CHECK(json_is_number(value) && json_number_value(value) >= f->min &&
                   json_number_value(value) <= f->max);
        break;
    case ATOLL_YAML_BOOL:
        FUZZ_CHECK(json_is_boolean(value));
        break;
    case ATOLL_YAML_STRINGS:
    case ATOLL_YAML_OBJECTS:
        check_each(value, f);
        break;
    case ATOLL_YAML_OBJECT:
        check_object(value, f->table);
        break;
    default:
        FUZZ_CHECK(json_is_object(value) || json_is_string(value));
    }
}

static void fuzz_file(const char *text, size_t n, const struct atoll_yaml_field *table, int kind)
{
    struct atoll_error err = {0};
    json_t *object = NULL;
    char *again;
    int r = kind < ATOLL_REGISTRY_KINDS
                ? atoll_yaml_load("f.yaml", text, n, table, &object, &err)
                : atoll_yaml_load_expanded("f.yaml", text, n, table, &object, &err);

    if (r < 0) {
        check_refusal(&err, "f.yaml");
        return;
    }
    check_object(object, table);
    if (kind < ATOLL_REGISTRY_KINDS)
        (void)!atoll_registry_check((enum atoll_registry_kind)kind, object, &err);
    again = json_dumps(object, JSON_COMPACT); /* clients get to see it */
    FUZZ_CHECK(again);
    free(again);
    json_decref(object);
}

/* The file is opened by its name, so it has one. */
static void fuzz_config(const char *text, size_t n)
{
    struct atoll_config config;
    struct atoll_error err = {0};
    int fd = memfd_create("config", MFD_CLOEXEC);
    char option[40];
    char *const argv[] = {"atolld", "--state=/s", option, NULL};

    FUZZ_CHECK(fd >= 0 && atoll_fd_write_all(fd, text, n) == 0);
    (void)snprintf(option, sizeof(option), "--config=/proc/self/fd/%d", fd);
    if (atoll_config_load(&config, 3, argv, &err) == 0)
        FUZZ_CHECK(config.socket[0] == '/' && strcmp(config.state, "/s") == 0);
    else
        FUZZ_CHECK(err.kind == ATOLL_ERR_INVALID_ARGUMENT);
    (void)close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data + 1;
    unsigned kind;

    if (size < 1)
        return 0;
    kind = data[0] % (ATOLL_REGISTRY_KINDS + 2);
    if (kind < ATOLL_REGISTRY_KINDS)
        fuzz_file(text, size - 1, atoll_registry_tables[kind], (int)kind);
    else if (kind == ATOLL_REGISTRY_KINDS)
        fuzz_file(text, size - 1, atoll_provider_file_fields, (int)kind);
    else
        fuzz_config(text, size - 1);
    return 0;
}
