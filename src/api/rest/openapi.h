#pragma once

/* docs/openapi.json, embedded by scripts/embed. */
extern const char atoll_openapi_json[];
extern const unsigned long atoll_openapi_json_len;
