#include "engine/state/changes.h"

#include <string.h>
#include "base/text.h"
#include "engine/json_memory.h"

static uint64_t number_in(const json_t *object, const char *name)
{
    json_int_t value = json_integer_value(json_object_get(object, name));
    return value > 0 ? (uint64_t)value : 0;
}

bool atoll_changes_read_summary(const uint8_t *bytes, size_t n, struct atoll_changes_summary *ret)
{
    json_t *object = atoll_json_load(bytes, n, JSON_REJECT_DUPLICATES, NULL);
    const json_t *summary = json_object_get(object, "summary");

    if (summary)
        *ret = (struct atoll_changes_summary){.added = number_in(summary, "added"),
                                              .changed = number_in(summary, "changed") +
                                                         number_in(summary, "type"),
                                              .removed = number_in(summary, "removed"),
                                              .bytes = number_in(summary, "bytes")};
    json_decref(object);
    return summary != NULL;
}

/* The first line is the change, if there is one; the last is the summary. */
bool atoll_changes_read_kind(const uint8_t *bytes, size_t n, char *ret, size_t cap)
{
    const uint8_t *end = n ? memchr(bytes, '\n', n) : NULL;
    json_t *object =
        end ? atoll_json_load(bytes, (size_t)(end - bytes), JSON_REJECT_DUPLICATES, NULL) : NULL;
    const char *kind = json_string_value(json_object_get(object, "kind"));
    bool found = kind && atoll_text_copy(ret, cap, kind) == 0;

    json_decref(object);
    return found;
}
