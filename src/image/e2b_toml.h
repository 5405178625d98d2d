#pragma once
#include "base/error.h"

/*
 * e2b.toml: the settings of a template of E2B's command line. Reads the part of TOML 1.0 that such files
 * use: comments, bare and quoted keys, texts in all four kinds of quotes, whole numbers with "_". Other keys
 * and everything in tables are skipped, as E2B's command line does. Pure.
 */
#define ATOLL_E2B_TOML_MAX ((size_t)64 * 1024)

struct atoll_e2b_toml {
    /* Owned; NULL: not given. */
    char *template_id, *template_name, *dockerfile, *start_cmd, *ready_cmd, *team_id;
    uint64_t cpu_count, memory_mb; /* 0: not given */
};

/* INVALID_ARGUMENT: "line N: …". */
int atoll_e2b_toml_parse(const char *text, size_t n, struct atoll_e2b_toml *ret,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_e2b_toml_done(struct atoll_e2b_toml *t);
