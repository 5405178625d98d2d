#include "provider/docker/pull.h"

#include <stdio.h>
#include <string.h>
#include "base/text.h"

static bool is_layer(const char *id)
{
    return strlen(id) == 12 && id[strspn(id, "0123456789abcdef")] == '\0';
}

/* Index of that layer; -1 if there are too many. */
static ssize_t find(struct atoll_docker_pull *pull, const char *id)
{
    for (size_t i = 0; i < pull->count; i++)
        if (strcmp(pull->layers[i].id, id) == 0)
            return (ssize_t)i;
    if (pull->count == ATOLL_DOCKER_LAYERS_MAX)
        return -1;
    (void)snprintf(pull->layers[pull->count].id, sizeof(pull->layers[0].id), "%s", id);
    return (ssize_t)pull->count++;
}

bool atoll_docker_pull_take(struct atoll_docker_pull *pull, const json_t *message)
{
    const char *id = json_string_value(json_object_get(message, "id"));
    const char *status = json_string_value(json_object_get(message, "status"));
    const json_t *detail = json_object_get(message, "progressDetail");
    json_int_t now = json_integer_value(json_object_get(detail, "current"));
    json_int_t total = json_integer_value(json_object_get(detail, "total"));
    ssize_t i;

    if (!id || !status || !is_layer(id))
        return false;
    i = find(pull, id);
    if (i < 0)
        return true;
    if (strcmp(status, "Downloading") == 0 && now > 0) {
        pull->layers[i].now = (uint64_t)now;
        pull->layers[i].total = total > 0 ? (uint64_t)total : 0;
    } else if (strcmp(status, "Download complete") == 0) {
        pull->layers[i].now = pull->layers[i].total;
    } else if (strcmp(status, "Pull complete") == 0 || strcmp(status, "Already exists") == 0) {
        pull->layers[i].done = true;
    }
    return true;
}

const char *atoll_docker_pull_text(const struct atoll_docker_pull *pull, char *out)
{
    uint64_t now = 0, total = 0;
    size_t done = 0;
    char have[16], all[16];

    for (size_t i = 0; i < pull->count; i++) {
        now += pull->layers[i].now;
        total += pull->layers[i].total;
        done += pull->layers[i].done;
    }
    (void)snprintf(out, 80, "%zu of %zu layers", done, pull->count);
    if (total > 0)
        (void)snprintf(out + strlen(out), 80 - strlen(out), ", %s of %s",
                       atoll_text_format_size(now, have), atoll_text_format_size(total, all));
    return out;
}
