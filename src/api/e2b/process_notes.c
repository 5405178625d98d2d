#include <stdio.h>
#include <string.h>
#include "api/e2b/process.h"

/* Per sandbox. Beyond it the oldest notes are dropped: their processes lose only their tags. */
#define NOTES_MAX 1024

struct sandbox_notes {
    char sandbox_id[ATOLL_ID_LEN + 1];
    struct atoll_list notes; /* oldest first */
    size_t count;
};

static void note_free(struct atoll_e2b_plane *plane, struct sandbox_notes *of,
                      struct atoll_process_note *note)
{
    (void)atoll_map_remove(&plane->notes_by_exec, note->exec_id);
    atoll_list_remove(&note->node);
    of->count--;
    free(note->tag);
    json_decref(note->envs);
    free(note);
}

/* Frees the oldest notes while there are more than `most`, and the notes of processes that can
 * no longer be selected. */
static void clear_away(struct atoll_e2b_plane *plane, struct sandbox_notes *of, size_t most)
{
    struct atoll_sandbox *sandbox = atoll_engine_find(plane->api->config.engine, of->sandbox_id);
    const struct atoll_exec *exec;
    struct atoll_exec_view view;

    ATOLL_LIST_FOREACH (&of->notes, node) {
        struct atoll_process_note *note = ATOLL_CONTAINER_OF(node, struct atoll_process_note, node);
        exec = sandbox ? atoll_sandbox_find_exec(sandbox, note->exec_id) : NULL;
        if (exec)
            atoll_exec_get(exec, &view);
        if (!exec || of->count > most || atoll_process_is_over(&view))
            note_free(plane, of, note);
    }
}

static struct sandbox_notes *notes_of(struct atoll_e2b_plane *plane, const char *sandbox_id)
{
    struct sandbox_notes *of = atoll_map_get(&plane->notes_by_sandbox, sandbox_id);

    if (of)
        return of;
    of = atoll_api_alloc(sizeof(*of));
    (void)snprintf(of->sandbox_id, sizeof(of->sandbox_id), "%s", sandbox_id);
    atoll_list_init(&of->notes);
    if (atoll_map_put(&plane->notes_by_sandbox, of->sandbox_id, of) < 0)
        abort();
    return of;
}

void atoll_process_note(struct atoll_e2b_plane *plane, const struct atoll_exec_view *exec,
                        const char *tag, const json_t *envs)
{
    struct atoll_process_note *note;
    struct sandbox_notes *of;

    if (!tag && json_object_size(envs) == 0)
        return;
    of = notes_of(plane, exec->sandbox_id);
    clear_away(plane, of, NOTES_MAX - 1);
    note = atoll_api_alloc(sizeof(*note));
    (void)snprintf(note->exec_id, sizeof(note->exec_id), "%s", exec->id);
    note->tag = tag ? strdup(tag) : NULL;
    note->envs = json_incref((json_t *)envs);
    atoll_list_push_back(&of->notes, &note->node);
    of->count++;
    if (atoll_map_put(&plane->notes_by_exec, note->exec_id, note) < 0)
        note_free(plane, of, note);
}

const struct atoll_process_note *atoll_process_noted(const struct atoll_e2b_plane *plane,
                                                     const char *exec_id)
{
    return atoll_map_get(&plane->notes_by_exec, exec_id);
}

void atoll_notes_drop(struct atoll_e2b_plane *plane, const char *sandbox_id)
{
    struct sandbox_notes *of = atoll_map_remove(&plane->notes_by_sandbox, sandbox_id);

    if (!of)
        return;
    clear_away(plane, of, 0);
    free(of);
}

void atoll_notes_drop_all(struct atoll_e2b_plane *plane)
{
    struct sandbox_notes *of;

    for (size_t pos = 0; (of = atoll_map_next(&plane->notes_by_sandbox, &pos));)
        atoll_notes_drop(plane, of->sandbox_id);
}
