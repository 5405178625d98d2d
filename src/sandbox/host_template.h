#pragma once
#include "base/error.h"

/*
 * The `host` template: a small root whose /usr is the host's. Lays out, below the state directory,
 *   template/host   directories, links and a generated /etc (the host's /usr is stacked on it)
 *   template/tools  what every template gets on top: usr/bin/sudo
 * From the host's /etc only a list of harmless, world-readable things is copied; no account, key or
 * setting of the host is among them.
 * Blocking: copies some hundred small files the first time, and again when the host's libraries or
 * this program changed; otherwise one stat. Call while no sandbox is being made: those that run keep
 * what they were made from (ATOLL_TEMPLATE_OLD).
 */
int atoll_host_template_make(const char *state_dir, const char *program_dir,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
