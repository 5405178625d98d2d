#include <stdio.h>
#include <string.h>
#include "api/e2b/process.h"

/* Beyond it the oldest go: their processes lose their tags and nothing else. */
#define NOTES_MAX 8192

static void note_free(struct atoll_e2b_plane *plane, struct atoll_process_note *note)
{
    (void)atoll_map_remove(&plane->notes_by_exec, note->exec_id);
    atoll_list_remove(&note->node);
    free(note->tag);
    json_decref(note->envs);
    free(note);
}

/* Notes of processes that nobody can ask for any more. */
static bool is_stale(const struct atoll_e2b_plane *plane, const struct atoll_process_note *note)
{
    struct atoll_sandbox *sandbox = atoll_engine_find(plane->api->config.engine, note->sandbox_id);
    return !sandbox || !atoll_sandbox_find_exec(sandbox, note->exec_id);
}

void atoll_process_note(struct atoll_e2b_plane *plane, const struct atoll_exec_view *exec,
                        const char *tag, const json_t *envs)
{
    struct atoll_process_note *note;

    if (!tag && json_object_size(envs) == 0)
        return;
    while (!atoll_list_empty(&plane->notes)) {
        note = ATOLL_CONTAINER_OF(plane->notes.next, struct atoll_process_note, node);
        if (plane->notes_by_exec.used < NOTES_MAX && !is_stale(plane, note))
            break;
        note_free(plane, note);
    }
    note = atoll_api_alloc(sizeof(*note));
    (void)snprintf(note->exec_id, sizeof(note->exec_id), "%s", exec->id);
    (void)snprintf(note->sandbox_id, sizeof(note->sandbox_id), "%s", exec->sandbox_id);
    note->tag = tag ? strdup(tag) : NULL;
    note->envs = json_incref((json_t *)envs);
    atoll_list_push_back(&plane->notes, &note->node);
    if (atoll_map_put(&plane->notes_by_exec, note->exec_id, note) < 0)
        note_free(plane, note);
}

const struct atoll_process_note *atoll_process_noted(const struct atoll_e2b_plane *plane,
                                                     const char *exec_id)
{
    return atoll_map_get(&plane->notes_by_exec, exec_id);
}

void atoll_notes_drop(struct atoll_e2b_plane *plane, const char *sandbox_id)
{
    ATOLL_LIST_FOREACH (&plane->notes, node) {
        struct atoll_process_note *note = ATOLL_CONTAINER_OF(node, struct atoll_process_note, node);
        if (!sandbox_id || strcmp(note->sandbox_id, sandbox_id) == 0)
            note_free(plane, note);
    }
}
