// The ledger: who owns which logical value, and the counters.
#ifndef TN_FRONTEND_GRAPH_LEDGER_H
#define TN_FRONTEND_GRAPH_LEDGER_H

#include "frontend/graph/function.h"

// A logical value, as the user sees it: what one call made, however many IR values it took. A packed sequence is one.
typedef enum { FE_ALIVE, FE_DISPOSED, FE_CLOSED, FE_ADOPTED } FeValueState;
typedef struct FeLogicalValue {
  Val v;                // of a packed sequence: its data; 0: a parameter whose initial value has no instruction yet
  uint32_t n_members;   // of a packed sequence: 4, or 2 when it is sorted; else 0
  uint32_t layout;      // of a packed sequence: the value of its layout
  uint32_t owner;       // scope index; NO_SCOPE: none
  uint32_t created_in;  // owner when it was made
  uint32_t prev, next;  // in its owner's list
  uint32_t stamp;       // of the keep-list that named it last
  FeParam *param;       // that took it over, or that it is
  uint32_t was;   // of a parameter: the entity of the handle that it took over; that one may have taken over another
  uint8_t state;  // FeValueState
  uint8_t dtype;  // op, dtype and shape of v as built: passes renumber values
  uint16_t op;
  Shape shape;
  bool is_counted;  // false: moves are followed, nothing is counted (gradients)
  bool is_param;
  bool reported;  // a use after its end was reported
  // after losing its scope: it moved out of the outermost one; was an operand; went to the caller
  bool left, used, is_output;
  Loc made, ended, lost;  // lost: where it lost its scope, by detaching or moving out
  const char *call;       // the public call that made it; NULL: none, or one op's own
} FeLogicalValue;

// Who owns which logical value, and the counters. Every public call that gives the user a new value ends
// in fe_made: that call is one value in the ledger, the instructions inside it are none.
// t itself; counts nothing when t was counted already. `call`: what reports say it is the result of, where it is public and
// no guard on the stack names another
#define fe_made(...) fe_made_by(__func__, __VA_ARGS__)
tn_tensor fe_made_by(const char *call, tn_tensor t, tn_site at);
// Entity of a value; a value without one gets one that is not counted: parameters, inputs and gradients are
// followed, not counted
FeLogicalValue *fe_entity(tn_tensor t);                 // valid until the next one is made
FeLogicalValue *fe_known(const tn_function *f, Val v);  // NULL: none
bool fe_alive(tn_tensor t, tn_site at);                 // false: reported
bool fe_param_alive(tn_program *p, const FeParam *q, tn_site at);
void fe_mark_output(tn_tensor t);                                    // went to the caller
void fe_link(tn_function *f, uint32_t e, uint32_t scope);            // to another owner, nothing counted
void fe_end(tn_function *f, uint32_t e, FeValueState fate, Loc at);  // its end, counted by its owner
void fe_detached(tn_function *f, uint32_t e, bool left, Loc at);     // counted when a scope owned it
void fe_attached(tn_function *f, uint32_t e, uint32_t scope);        // counted
uint32_t fe_param_entity(tn_function *init, FeParam *q, Loc at);     // a new one: made, and taken by its module
void fe_state_made(tn_function *f);                                  // state of an optimizer: made, and nobody's
void fe_name_entity(tn_function *f, uint32_t e, Val v);              // v is its handle from now on
// The same for a parameter: its old handle is dead
void fe_rename_entity(tn_function *f, uint32_t e, Val v, Loc at);
void fe_never_disposed(tn_function *f);  // W108 for values that f never disposed
static inline uint32_t fe_entity_index(const tn_function *f, const FeLogicalValue *e) {
  return (uint32_t)(e - f->entities);
}
void fe_note_made(tn_function *f, const FeLogicalValue *e);
const char *fe_label(tn_function *f, const FeLogicalValue *e);  // "the result of tn_relu (f32[4,3])"

#endif
