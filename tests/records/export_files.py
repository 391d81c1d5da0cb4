"""Small exports of other tools, in the shapes that their documentation or they themselves give."""

from __future__ import annotations

from typing import Any

_ASKED = [{"role": "system", "content": "Add."}, {"role": "user", "content": "2 + 2?"}]
_SAID = {"role": "assistant", "content": "4"}

MLFLOW_TABLE = {
    "columns": ["inputs", "predictions", "targets", "latency", "exact_match/v1", "toxic/v1/score"],
    "data": [["2 + 2?", "4", "4", 0.5, True, 0.25], ["3 + 3?", "7", "6", 1.5, False, 0.75]],
}
MLFLOW_TRACE = {
    "info": {
        "trace_id": "tr-1",
        "state": "OK",
        "request_preview": '{"question": "2 + 2?"}',
        "response_preview": '"4"',
        "execution_duration_ms": 20,
        "trace_metadata": {
            "mlflow.trace.tokenUsage": '{"input_tokens": 10, "output_tokens": 3}',
        },
        "assessments": [
            {"assessment_name": "relevance", "feedback": {"value": 0.75}},
            {"assessment_name": "grounded", "feedback": {"value": "yes"}},
            {"assessment_name": "expected_response", "expectation": {"value": "four"}},
        ],
    },
    "data": {
        "spans": [
            {
                "name": "add",
                "span_id": "x",
                "trace_id": "y",
                "status": {"code": "STATUS_CODE_OK"},
                "attributes": {
                    "mlflow.spanType": '"TOOL"',
                    "mlflow.spanInputs": '{"a": 2}',
                },
            }
        ]
    },
}
LANGFUSE = {
    "id": "t1",
    "projectId": "p",
    "htmlPath": "/project/p/traces/t1",
    "name": "chat",
    "timestamp": "2026-01-01T00:00:00Z",
    "input": {"messages": _ASKED},
    "output": _SAID,
    "latency": 1.5,
    "totalCost": 0.25,
    "tags": ["a"],
    "scores": [{"name": "helpful", "value": 0.5, "dataType": "NUMERIC"}],
    "observations": [
        {"type": "GENERATION", "model": "m", "usageDetails": {"input": 10, "output": 3}},
        {"type": "GENERATION", "model": "m", "usageDetails": {"input": 1, "output": 2}},
        {"type": "TOOL", "name": "add"},
    ],
}
LANGSMITH = {
    "id": "r1",
    "run_type": "chain",
    "reference_example_id": "e1",
    "inputs": {"question": "2 + 2?"},
    "outputs": {"answer": "4"},
    "start_time": "2026-01-01T00:00:00",
    "end_time": "2026-01-01T00:00:01.500000",
    "prompt_tokens": 10,
    "completion_tokens": 3,
    "extra": {"metadata": {"ls_model_name": "m"}},
    "feedback_stats": {"right": {"n": 1, "avg": 1.0}},
    "parent_run_id": None,
}
BRAINTRUST = {
    "id": "b1",
    "span_id": "s",
    "root_span_id": "s",
    "span_attributes": {"type": "eval"},
    "input": "2 + 2?",
    "output": "4",
    "expected": "4",
    "scores": {"Factuality": 0.5, "broken": None},
    "metadata": {"model": "m"},
    "metrics": {"start": 10.0, "end": 11.5, "prompt_tokens": 10, "completion_tokens": 3},
}
WEAVE = {
    "id": "w1",
    "op_name": "weave:///e/p/op/Evaluation.predict_and_score:abc",
    "trace_id": "t",
    "parent_id": "w0",
    "inputs": {"example": {"question": "2 + 2?", "expected": "4"}, "model": "m0"},
    "output": {
        "output": "4",
        "scores": {"match": {"correct": True}, "length": 0.5},
        "model_latency": 1.5,
    },
    "summary": {"usage": {"m": {"prompt_tokens": 10, "completion_tokens": 3, "requests": 1}}},
    "exception": None,
}
PHOENIX = {
    "name": "ChatCompletion",
    "span_kind": "LLM",
    "parent_id": None,
    "start_time": "2026-01-01T00:00:00+00:00",
    "end_time": "2026-01-01T00:00:01.500000+00:00",
    "status_code": "OK",
    "context.trace_id": "t1",
    "context.span_id": "s1",
    "attributes.llm.model_name": "m",
    "attributes.llm.token_count.prompt": 10,
    "attributes.llm.token_count.completion": 3,
    "attributes.input.value": '{"messages": [{"role": "user", "content": "2 + 2?"}]}',
    "attributes.output.value": "4",
    "eval.Hallucination.score": 0.5,
}
HELM: dict[str, Any] = {
    "adapter_spec": {"method": "generation", "model": "m"},
    "request_states": [
        {
            "instance": {
                "id": "id1",
                "split": "test",
                "input": {"text": "2 + 2?"},
                "references": [
                    {"output": {"text": "5"}, "tags": []},
                    {"output": {"text": "4"}, "tags": ["correct"]},
                ],
            },
            "train_trial_index": 0,
            "output_mapping": {"A": "4", "B": "5"},
            "request": {"model": "m", "prompt": "Question: 2 + 2?"},
            "result": {
                "success": True,
                "request_time": 1.5,
                "completions": [{"text": " A", "logprob": -1.0}],
            },
        }
    ],
}
HELM_STATS: list[dict[str, Any]] = [
    {
        "instance_id": "id1",
        "train_trial_index": 0,
        "stats": [
            {"name": {"name": "exact_match", "split": "test"}, "count": 1, "mean": 1.0},
            {"name": {"name": "f1", "split": "test"}, "count": 1, "mean": 0.5},
        ],
    }
]
EVERY_EVAL_EVER = {
    "schema_version": "0.2.2",
    "evaluation_id": "e",
    "model_id": "org/m",
    "evaluation_name": "sums",
    "sample_id": "7",
    "interaction_type": "single_turn",
    "input": {"raw": "2 + 2?", "reference": ["4"]},
    "output": {"raw": ["It is 4"], "reasoning_trace": ["two and two"]},
    "messages": None,
    "answer_attribution": [
        {"turn_idx": 0, "source": "output.raw", "extracted_value": "4", "is_terminal": True}
    ],
    "evaluation": {"score": 1.0, "is_correct": True},
    "token_usage": {"input_tokens": 10, "output_tokens": 3, "total_tokens": 13},
    "performance": {"latency_ms": 1500.0},
}
LEADERBOARD = {
    "doc": {"query": "2 + 2?", "choices": ["5", "4"], "gold_index": 1, "id": "7"},
    "metric": {"acc": 1, "f1": 0.5},
    "model_response": {"text": ["4"], "input": "2 + 2?"},
}
TAU_BENCH = {
    "task_id": 3,
    "trial": 1,
    "reward": 1.0,
    "info": {"task": {"instruction": "Book a flight.", "actions": []}, "user_cost": 0.1},
    "traj": [
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "1", "function": {"name": "book", "arguments": '{"to": "X"}'}}],
        },
        {"role": "tool", "tool_call_id": "1", "content": "ok"},
        {"role": "assistant", "content": "Done"},
    ],
}
TAU2_BENCH = {
    "timestamp": "2026",
    "info": {
        "num_trials": 1,
        "user_info": {"implementation": "user_simulator", "llm": "their-user"},
        "agent_info": {"implementation": "llm_agent", "llm": "their-agent"},
        "environment_info": {"domain_name": "retail", "policy": "Be kind."},
    },
    "tasks": [{"id": "3"}],
    "simulations": [
        {
            "id": "s",
            "task_id": "3",
            "trial": 0,
            "reward_info": {"reward": 0.0},
            "messages": TAU_BENCH["traj"],
            "agent_cost": 0.25,
            "duration": 1.5,
            "termination_reason": "agent_stop",
        }
    ],
}
SWE_BENCH = {
    "total_instances": 3,
    "submitted_ids": ["a__b-1", "a__b-2", "a__b-3"],
    "resolved_ids": ["a__b-1"],
    "unresolved_ids": ["a__b-2"],
    "error_ids": ["a__b-3"],
    "schema_version": 2,
}
SWE_BENCH_INSTANCE = {
    "a__b-1": {
        "patch_exists": True,
        "patch_successfully_applied": True,
        "resolved": False,
        "tests_status": {
            "FAIL_TO_PASS": {"success": ["t1"], "failure": ["t2"]},
            "PASS_TO_PASS": {"success": ["t3"], "failure": []},
        },
    }
}
SWE_AGENT = {
    "environment": "main",
    "trajectory": [
        {"action": "open a.py", "observation": "…", "execution_time": 0.5, "thought": "look"},
        {"action": "submit", "observation": "", "execution_time": 0.25},
    ],
    "history": [
        {"role": "system", "content": "You fix bugs."},
        {"role": "user", "content": "Fix it."},
    ],
    "info": {
        "exit_status": "submitted",
        "submission": "diff",
        "model_stats": {"instance_cost": 0.25, "tokens_sent": 10, "tokens_received": 3},
    },
}
TIER_RUN = {
    "run_number": 1,
    "exit_code": 0,
    "token_stats": {"input_tokens": 10, "output_tokens": 3, "cache_read_tokens": 7},
    "cost_usd": 0.25,
    "duration_seconds": 1.5,
    "judge_score": 0.5,
    "judge_passed": True,
    "judges": [{"model": "j", "score": 0.5, "passed": True, "judge_number": 1}],
}
JUDGMENT = {
    "score": 0.5,
    "passed": True,
    "reasoning": "fine",
    "criteria_scores": {"functional": {"score": 1.0}, "style": {"score": 0.0}},
}
AGENT_TRACE = {
    "execution_id": "x1",
    "agent_interactions": [{"from": "manager", "to": "writer", "type": "task_request"}],
    "tool_calls": [{"tool_name": "save", "success": True, "duration": 0.5}],
    "coordination_events": [],
    "performance_metrics": {"total_duration": 1.5},
}
CHAT = {
    "request": {"model": "m", "messages": _ASKED},
    "response": {
        "id": "c1",
        "model": "m-2026",
        "choices": [{"message": _SAID, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": 10,
            "completion_tokens": 3,
            "prompt_tokens_details": {"cached_tokens": 4},
        },
    },
    "latency_ms": 1500,
}
BATCH = {
    "id": "b",
    "custom_id": "q7",
    "response": {"status_code": 200, "body": CHAT["response"]},
    "error": None,
}


def make_ragas_row(**fields: Any) -> dict[str, Any]:
    return {
        "user_input": "2 + 2?",
        "retrieved_contexts": ["four"],
        "response": "4",
        "reference": "4",
        "faithfulness": 0.5,
        "answer_relevancy": None,
        **fields,
    }
