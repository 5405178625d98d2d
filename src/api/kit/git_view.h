#pragma once
#include "api/json_out.h"
#include "git/git.h"

/* Results of git as JSON: of the REST API, and of tools. */

/* Writes the outermost object; false: the operation has no result to show. */
bool atoll_git_view(struct atoll_json_out *out, const struct atoll_git_result *result);
/* Writes the member "git" of an error: the problem, git's words, files. */
void atoll_git_view_failure(struct atoll_json_out *out, const struct atoll_git_failure *failure);
