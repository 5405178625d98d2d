#pragma once

/* docs/openapi.json, put into the program by scripts/embed. */
extern const char atoll_openapi_json[];
extern const unsigned long atoll_openapi_json_len;
