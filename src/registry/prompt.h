#pragma once
#include "base/buf.h"
#include "registry/registry.h"

/*
 * Prompts of the registry: texts with variables, as {name}.
 */
#define ATOLL_PROMPT_TEXT_MAX ((size_t)1024 * 1024)

/* Appends the text of the prompt with these variables, an object of texts or NULL. INVALID_ARGUMENT: one is
 * missing, unknown or not a text; RESOURCE_EXHAUSTED: the text would be too long for `out`. */
int atoll_prompt_render(const struct atoll_registry_item *prompt, const json_t *variables,
                        struct atoll_buf *out, struct atoll_error *err) ATOLL_MUST_CHECK;
