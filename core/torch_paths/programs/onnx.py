"""torch.onnx: no ONNX files are written; programs that only ask whether they export go on."""

from __future__ import annotations

from rushlight.core.settings.standins import refuse_all


def is_in_onnx_export() -> bool:
    """False."""
    return False


globals().update(
    refuse_all(
        "onnx",
        "export dynamo_export register_custom_op_symbolic unregister_custom_op_symbolic "
        "select_model_mode_for_export ONNXProgram ExportOptions OnnxExporterError",
        "no ONNX files are written; save the weights with rl.save(model.state_dict(), "
        '"model.safetensors") or rl.save_gguf',
    )
)
