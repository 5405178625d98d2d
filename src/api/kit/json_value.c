#include "api/kit/json_value.h"

#include <stdlib.h>
#include "engine/json_memory.h"

void atoll_json_value(struct atoll_json_out *out, const char *key, const json_t *value)
{
    ATOLL_AUTOFREE char *text = NULL;

    if (!value)
        return;
    text = atoll_json_dump(value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!text)
        abort(); /* the daemon is crash-only */
    atoll_json_raw(out, key, text);
}
